// All of this Cellar.
import * as z from 'zod';
import { appStatus } from './apps/apps.ts';
import { id, listOf, page, reference, time } from './fields.ts';
import { operation } from './operation.ts';

const percentile = z.number().nullable();
const counts = z.record(z.string(), z.int());

/** What is known of the damage to snapshots. */
export const Verified = z.strictObject({
  /** When all of them were read last; null: never. */
  at: time.nullable(),
  /** How many there were then, and the packs that they need, with their bytes. */
  snapshots: z.int(),
  packs: z.int(),
  bytes: z.int(),
  /** Objects of the store that are missing or damaged, 50 at most. */
  objects: z.array(z.strictObject({ name: z.string(), problem: z.enum(['missing', 'damaged']) })),
  /** Snapshots that need them, the newest first, and what of each cannot be restored. `app` is null for what is no app's. */
  damaged: z.array(
    z.strictObject({
      key: z.string(),
      parts: z.array(z.strictObject({ app: id.nullable(), name: z.string() })),
    }),
  ),
});
export type Verified = z.output<typeof Verified>;

/** The host's own figures. Times in ms, sizes in bytes. */
export const HostStats = z.strictObject({
  started_at: time,
  /** The host's process. */
  rss_bytes: z.int(),
  /** How late the gateway's thread comes to what is due, in the last `over_s` seconds. */
  event_loop_delay: z.strictObject({
    p50_ms: z.number(),
    p99_ms: z.number(),
    max_ms: z.number(),
    over_s: z.int(),
  }),
  /** Processes of apps. `memory_bytes` is what is theirs alone. */
  cells: z.strictObject({ running: z.int(), memory_bytes: z.int(), open_streams: z.int() }),
  /** The apps with most memory, then those that keep most on the disk; at most 200. `null`: not measured yet. */
  apps: z.array(
    z.strictObject({
      id,
      slug: z.string(),
      /** What is its process's alone; null without a process. */
      memory_bytes: z.int().nullable(),
      /** Its databases, objects, namespaces, queues and buckets. */
      disk_bytes: z.int().nullable(),
    }),
  ),
  /** Starts that requests waited for, since the host's start; the percentiles are of the last 1,000. */
  wakes: z.strictObject({ count: z.int(), failed: z.int(), p50_ms: percentile, p99_ms: percentile }),
  /** What counts against `RUNNER_FLEET_MAX_RSS_MB`, and how much may be used. */
  memory: z.strictObject({ used_bytes: z.int(), limit_bytes: z.int(), over: z.boolean() }),
  /** The disk of the data directory, and how much must stay free on it. */
  disk: z.strictObject({ free_bytes: z.int(), floor_bytes: z.int(), short: z.boolean() }),
  /** What waits for its turn. */
  queues: z.strictObject({
    deploys_running: z.int(),
    deploys_waiting: z.int(),
    starts_waiting: z.int(),
    /** Facts that the control plane has not been told, and apps of which it refuses one. */
    outbox: z.int(),
    outbox_refused: z.int(),
  }),
  /** What waits to be written, what was dropped since the host's start, the bytes of its files, and ends of its thread. */
  telemetry: z.strictObject({ waiting: counts, dropped: counts, files: counts, restarts: z.int() }),
  control_plane: z.strictObject({ answers: z.boolean(), restarts: z.int() }),
  /** The last snapshot: when it was taken, what it wrote and has. `problem`: why the last try failed. */
  snapshots: z.strictObject({
    last_at: time.nullable(),
    last_written_bytes: z.int().nullable(),
    last_bytes: z.int().nullable(),
    problem: z.string().nullable(),
    /** What is done at the moment: a snapshot is taken, storage is read from one, or all are verified. */
    under_way: z
      .strictObject({ what: z.enum(['take', 'restore', 'copy', 'verify']), since: time })
      .nullable(),
    /** What the last verification found, and what later snapshots changed about it. */
    verified: Verified,
    /** Whether the newest snapshot is one of the damaged ones. */
    newest_damaged: z.boolean(),
  }),
});
export type HostStats = z.output<typeof HostStats>;

export const admin = [
  operation({
    name: 'admin.stats',
    summary: 'Counts what is here',
    method: 'GET',
    path: '/v1/admin/stats',
    needs: 'runner',
    input: z.strictObject({}),
    output: z.strictObject({
      apps: z.strictObject({ total: z.int(), by_status: z.partialRecord(appStatus, z.int()) }),
      accounts: z.int(),
      domains: z.int(),
      deploys: z.strictObject({ total: z.int(), unfinished: z.int() }),
      /** The host's own figures; null while it does not answer. */
      host: HostStats.nullable(),
    }),
    status: 200,
    errors: [],
  }),
  operation({
    name: 'admin.settings',
    summary: 'Lists the settings as they are, and where each comes from; secrets are not shown',
    method: 'GET',
    path: null,
    needs: 'runner',
    input: z.strictObject({}),
    output: z.strictObject({
      items: z.array(
        z.strictObject({
          name: z.string(),
          /** As text. Null for a secret. */
          value: z.string().nullable(),
          default: z.string(),
          from: z.enum(['default', 'environment']),
          secret: z.boolean(),
          meaning: z.string(),
        }),
      ),
    }),
    status: 200,
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'admin.snapshot',
    summary: 'Takes a snapshot of everything',
    method: 'POST',
    path: '/v1/admin/snapshot',
    needs: 'runner',
    input: z.strictObject({}),
    /** `key` names it, for a restore. `bytes`: what was written for it. */
    output: z.strictObject({ key: z.string(), bytes: z.int(), created_at: time }),
    status: 201,
    errors: ['snapshot_failed', 'snapshot_unusable', 'host_unavailable', 'insufficient_storage'],
  }),
  operation({
    name: 'snapshots.list',
    summary: 'Lists the snapshots, the newest first',
    method: 'GET',
    path: null,
    needs: 'runner',
    input: z.strictObject({ ...page }),
    output: listOf(
      z.strictObject({
        key: z.string(),
        created_at: time,
        /** What it was taken for. */
        why: z.string(),
        /** Bytes of all that is in it, and of what was written for it. */
        bytes: z.int(),
        written_bytes: z.int(),
        apps: z.int(),
        /** Apps that could not be read then, and are in it as they were in the snapshot before. */
        failures: z.array(z.strictObject({ app: z.string(), slug: z.string(), error: z.string() })),
      }),
    ),
    status: 200,
    errors: ['snapshot_failed', 'host_unavailable'],
  }),
  operation({
    name: 'snapshots.verify',
    summary: 'Reads all that snapshots need, and says what is missing or damaged',
    method: 'POST',
    path: null,
    needs: 'runner',
    input: z.strictObject({}),
    output: Verified,
    status: 200,
    errors: ['snapshot_failed', 'snapshot_unusable', 'host_unavailable'],
  }),
  operation({
    name: 'admin.restore',
    summary: "Replaces an app's storage, or one database of it, by that of a snapshot",
    method: 'POST',
    path: null,
    needs: 'runner',
    destroys: true,
    input: z.strictObject({
      /** The key of a snapshot. */
      snapshot: z.string().min(1).max(64),
      /** Id or slug. */
      app: reference,
      /** The `database_id` of a D1 database, or its name where the project gives it none. Left out: all storage. */
      database: reference.optional(),
    }),
    /** `before` is the key of the snapshot that was taken of the state before; null when that could not be read. */
    output: z.strictObject({
      snapshot: z.string(),
      app: z.string(),
      database: z.string().nullable(),
      before: z.string().nullable(),
    }),
    status: 200,
    errors: [
      'app_not_found',
      'snapshot_not_found',
      'snapshot_unusable',
      'snapshot_failed',
      'host_unavailable',
      'insufficient_storage',
    ],
  }),
] as const;
