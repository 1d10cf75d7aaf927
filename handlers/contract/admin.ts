// All of this Cellar.
import * as z from 'zod';
import { appStatus } from './apps.ts';
import { time } from './fields.ts';
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
] as const;
