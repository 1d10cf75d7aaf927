// Operations on the whole Cellar.
import * as z from 'zod';
import { appStatus } from './apps/apps.ts';
import { id, listOf, moment, page, reference, time } from './fields.ts';
import { operation } from './operation.ts';

const percentile = z.number().nullable();
const counts = z.record(z.string(), z.int());

/** Result of verifying the snapshots. */
export const Verified = z.strictObject({
  /** When the snapshots were last verified; null: never. */
  at: time.nullable(),
  /** Number of verified snapshots. */
  snapshots: z.int(),
  /** Number of packs that these snapshots need. A pack is a file of the snapshot store, with pieces of many stored files. */
  packs: z.int(),
  /** Bytes of these packs. */
  bytes: z.int(),
  /** Missing or damaged objects of the snapshot store (packs and manifests), 50 at most. */
  objects: z.array(z.strictObject({ name: z.string(), problem: z.enum(['missing', 'damaged']) })),
  /**
   * Snapshots that need missing or damaged objects, newest first, at most 100. Each has at most 50 of the parts that cannot
   * be restored. `app` is null for a part that belongs to no app.
   */
  damaged: z.array(
    z.strictObject({
      key: z.string(),
      parts: z.array(z.strictObject({ app: id.nullable(), name: z.string() })),
    }),
  ),
});
export type Verified = z.output<typeof Verified>;

/** The changes that a restore would make to one storage of an app, such as a database. */
export const StorageChange = z.strictObject({
  /** `buckets`: all R2 buckets and vector indexes. `other`: data of no single storage, such as queues and timers. */
  kind: z.enum(['database', 'namespace', 'class', 'buckets', 'other']),
  /** The id of the database or namespace, or the class; empty for `buckets` and `other`. */
  name: z.string(),
  /** Bytes in the snapshot. */
  bytes: z.int(),
  /** Bytes now. */
  now_bytes: z.int(),
  /**
   * Bytes that were written since the snapshot, so that a restore loses them. Counted in steps of 64 KiB, or of 1 MiB in
   * files above 64 MiB.
   */
  lost_bytes: z.int(),
  /** Number of files (databases, objects, values) that have not changed since the snapshot. */
  same: z.int(),
  /** Number of files that have changed since the snapshot. */
  replaced: z.int(),
  /** Number of files that were created since the snapshot: a restore removes them. */
  removed: z.int(),
  /** Number of files that were deleted since the snapshot: a restore brings them back. */
  returned: z.int(),
});
export type StorageChange = z.output<typeof StorageChange>;

/** Apps that a snapshot lacks, because their data is on another host's disk. `host`: the name of that host. */
const leftOut = z.array(z.strictObject({ app: id, slug: z.string(), host: z.string() }));

const dollars = z.number().nullable();

/** Figures of one host and of the apps on it. Most field names end in their unit: `_ms`, `_s`, `_bytes`. */
export const HostStats = z.strictObject({
  started_at: time,
  /** Memory of the host's process. */
  rss_bytes: z.int(),
  /** Delays of the event loop in the gateway's thread, in the last `over_s` seconds. */
  event_loop_delay: z.strictObject({
    p50_ms: z.number(),
    p99_ms: z.number(),
    max_ms: z.number(),
    over_s: z.int(),
  }),
  /** Processes of apps. `memory_bytes` is their private memory. */
  cells: z.strictObject({ running: z.int(), memory_bytes: z.int(), open_streams: z.int() }),
  /** At most 200 apps: those that use most memory. Among apps with equal memory, those that use most disk space. */
  apps: z.array(
    z.strictObject({
      id,
      slug: z.string(),
      /** Private memory of the app's process; null without a process. */
      memory_bytes: z.int().nullable(),
      /** Bytes of the app's stored data, on the disk or in Cellar's bucket; null before the first measurement. */
      disk_bytes: z.int().nullable(),
    }),
  ),
  /**
   * Counts wakes by requests since the host's start. `count`: successful wakes. The percentiles cover the last 1,000 successful
   * wakes.
   */
  wakes: z.strictObject({ count: z.int(), failed: z.int(), p50_ms: percentile, p99_ms: percentile }),
  /** Memory counted against `RUNNER_FLEET_MAX_RSS_MB`, and the limit. */
  memory: z.strictObject({ used_bytes: z.int(), limit_bytes: z.int(), over: z.boolean() }),
  /** Free space on the disk of the data directory, and the space that must stay free. */
  disk: z.strictObject({ free_bytes: z.int(), floor_bytes: z.int(), short: z.boolean() }),
  /** Queue lengths. */
  queues: z.strictObject({
    deploys_running: z.int(),
    deploys_waiting: z.int(),
    starts_waiting: z.int(),
    /** Facts (changes of apps and deploys) that are not delivered to the control plane yet. */
    outbox: z.int(),
    /** Apps with a fact that the control plane refuses. */
    outbox_refused: z.int(),
  }),
  /**
   * `waiting`: entries that wait to be written. `dropped`: entries dropped since the host's start. `files`: bytes of the
   * telemetry databases. `restarts`: restarts of the telemetry thread.
   */
  telemetry: z.strictObject({ waiting: counts, dropped: counts, files: counts, restarts: z.int() }),
  control_plane: z.strictObject({ answers: z.boolean(), restarts: z.int() }),
  /** The last snapshot: its time, bytes written and total bytes. `problem`: why the last attempt or verification failed. */
  snapshots: z.strictObject({
    last_at: time.nullable(),
    last_written_bytes: z.int().nullable(),
    last_bytes: z.int().nullable(),
    problem: z.string().nullable(),
    /**
     * The running operation: takes a snapshot; restores, copies or compares storage; or verifies all snapshots. Null: none.
     */
    under_way: z
      .strictObject({ what: z.enum(['take', 'restore', 'copy', 'verify', 'compare']), since: time })
      .nullable(),
    /** Result of the last verification, updated by later snapshots. */
    verified: Verified,
    /** Whether the newest snapshot is damaged. */
    newest_damaged: z.boolean(),
  }),
  /**
   * Null without a bucket. Requests are counted since the host's start. A list request counts as a write, because object
   * stores charge it like a write.
   */
  bucket: z
    .strictObject({
      problem: z.string().nullable(),
      /** Bytes of repositories and releases on this disk, as last measured; null before the first measurement. */
      code_bytes: z.int().nullable(),
      /** Estimated US dollars a month for all requests, also the control plane's. Null in the first hour, or without prices. */
      monthly_usd: dollars,
      /** At most 200 apps: those with most writes and reads. */
      apps: z.array(
        z.strictObject({
          id,
          slug: z.string(),
          writes: z.int(),
          reads: z.int(),
          deletes: z.int(),
          monthly_usd: dollars,
        }),
      ),
    })
    .nullable(),
});
export type HostStats = z.output<typeof HostStats>;

export const admin = [
  operation({
    name: 'admin.stats',
    summary: 'Counts apps, accounts and other things of this Cellar',
    method: 'GET',
    path: '/v1/admin/stats',
    needs: 'runner',
    input: z.strictObject({}),
    output: z.strictObject({
      apps: z.strictObject({ total: z.int(), by_status: z.partialRecord(appStatus, z.int()) }),
      accounts: z.int(),
      domains: z.int(),
      deploys: z.strictObject({ total: z.int(), unfinished: z.int() }),
      /** Figures of the host whose control plane answers this call; null while that host does not answer. */
      host: HostStats.nullable(),
      /** Figures of the other hosts, if there are several. Hosts that do not answer are missing. */
      other_hosts: z.array(z.strictObject({ id: z.string(), name: z.string(), stats: HostStats })),
    }),
  }),
  operation({
    name: 'admin.settings',
    summary:
      'Lists the current settings, and where the value of each comes from; secret values are not shown',
    method: 'GET',
    needs: 'runner',
    input: z.strictObject({}),
    output: z.strictObject({
      items: z.array(
        z.strictObject({
          name: z.string(),
          /** The current value as a string; null for a secret. */
          value: z.string().nullable(),
          default: z.string(),
          from: z.enum(['default', 'environment']),
          secret: z.boolean(),
          meaning: z.string(),
        }),
      ),
    }),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'admin.snapshot',
    summary: 'Takes a snapshot of everything',
    method: 'POST',
    path: '/v1/admin/snapshot',
    needs: 'runner',
    input: z.strictObject({}),
    /** `key` identifies the snapshot for a restore. `bytes`: the bytes written. `left_out`: at most 50. */
    output: z.strictObject({ key: z.string(), bytes: z.int(), created_at: time, left_out: leftOut }),
    status: 201,
    errors: ['snapshot_failed', 'snapshot_unusable', 'host_unavailable', 'insufficient_storage'],
  }),
  operation({
    name: 'snapshots.list',
    summary: 'Lists the snapshots, the newest first',
    method: 'GET',
    needs: 'runner',
    input: z.strictObject({ ...page }),
    output: listOf(
      z.strictObject({
        key: z.string(),
        created_at: time,
        /** Why the snapshot was taken. */
        why: z.string(),
        /** Total bytes of the snapshot. */
        bytes: z.int(),
        /** Bytes that were written for this snapshot. Earlier snapshots had already stored the other bytes. */
        written_bytes: z.int(),
        apps: z.int(),
        /** Apps whose data could not be read. For these apps, the snapshot has the data of the previous snapshot. */
        failures: z.array(z.strictObject({ app: z.string(), slug: z.string(), error: z.string() })),
        left_out: leftOut,
      }),
    ),
    errors: ['snapshot_failed', 'host_unavailable'],
  }),
  operation({
    name: 'snapshots.verify',
    summary: 'Reads every byte of the snapshots, and lists missing and damaged ones',
    method: 'POST',
    needs: 'runner',
    input: z.strictObject({}),
    output: Verified,
    errors: ['snapshot_failed', 'snapshot_unusable', 'host_unavailable'],
  }),
  operation({
    name: 'admin.restore',
    summary: "Restores an app's storage, or one of its databases, from a snapshot",
    method: 'POST',
    needs: 'runner',
    destroys: true,
    input: z
      .strictObject({
        snapshot: z.string().min(1).max(64).optional(),
        /** A time, instead of `snapshot`: selects the newest snapshot up to this time that has the app. */
        at: moment.optional(),
        /** The id or slug of the app. */
        app: reference,
        /** The `database_id` of a D1 database, or its name if the project sets no id. Left out: all storage. */
        database: reference.optional(),
        /** Changes nothing. The answer says what would change. */
        dry_run: z.boolean().optional(),
      })
      .refine(({ snapshot, at }) => (snapshot === undefined) !== (at === undefined), {
        path: ['snapshot'],
        error: 'is required unless `at` is given; give only one of them',
      }),
    /** `before`: key of a snapshot of the previous state; null when that state could not be read, and for a dry run. */
    output: z.strictObject({
      snapshot: z.string(),
      /** When the snapshot was taken. */
      created_at: time,
      app: z.string(),
      database: z.string().nullable(),
      before: z.string().nullable(),
      /** The changes of at most 200 storages, sorted by lost bytes, most first. Null after a real restore. */
      changes: z.array(StorageChange).nullable(),
      /** Why a dry run could not read the current storage. Then `changes` says nothing about losses. Null if it could read it. */
      problem: z.string().nullable(),
    }),
    errors: [
      'app_not_found',
      'snapshot_not_found',
      'snapshot_unusable',
      'snapshot_failed',
      'host_unavailable',
      'insufficient_storage',
      'transition_conflict',
    ],
  }),
] as const;
