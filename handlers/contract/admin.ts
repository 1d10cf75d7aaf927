// All of this Cellar.
import * as z from 'zod';
import { appStatus } from './apps.ts';
import { listOf, page, reference, time } from './fields.ts';
import { operation } from './operation.ts';

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
      host: z.record(z.string(), z.unknown()).nullable(),
    }),
    status: 200,
    errors: [],
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
    errors: ['host_unavailable', 'insufficient_storage'],
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
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'admin.restore',
    summary: "Replaces an app's storage, or one database of it, by that of a snapshot",
    method: 'POST',
    path: null,
    needs: 'runner',
    input: z.strictObject({
      /** The key of a snapshot. */
      snapshot: z.string().min(1).max(64),
      /** Id or slug. */
      app: reference,
      /** The `database_id` of a D1 database, or its name where the project gives it none. Left out: all storage. */
      database: reference.optional(),
    }),
    /** `before` is the key of the snapshot that was taken of the state before. */
    output: z.strictObject({
      snapshot: z.string(),
      app: z.string(),
      database: z.string().nullable(),
      before: z.string(),
    }),
    status: 200,
    errors: [
      'app_not_found',
      'snapshot_not_found',
      'snapshot_unusable',
      'host_unavailable',
      'insufficient_storage',
    ],
  }),
] as const;
