// Moving an app between the machine and the bucket, or to another host.
import * as z from 'zod';
import { reference } from '../fields.ts';
import { operation } from '../operation.ts';
import { appStorage } from './apps.ts';

/** The data that a move transfers, as totals of an app and its previews. */
export const MovePlan = z.strictObject({
  from: appStorage,
  to: appStorage,
  /** Number of previews, which move with the app. */
  previews: z.int(),
  /** Number of D1 databases. */
  databases: z.int(),
  /** Number of KV namespaces. */
  namespaces: z.int(),
  /** Number of Durable Objects, including those of queues, crons and instances of Workflows. */
  objects: z.int(),
  r2_objects: z.int(),
  /** Bytes of all these. */
  bytes: z.int(),
});
export type MovePlan = z.output<typeof MovePlan>;

export const moves = [
  operation({
    name: 'apps.move',
    summary:
      'Moves the data and code of an app and of its previews into the bucket or back to the machine, or makes another host run the app. Requests wait during the move',
    method: 'POST',
    path: '/v1/apps/:id/move',
    needs: 'admin',
    /** Either `to` or `host`. A move to another host transfers no data, because the data is in the bucket. */
    input: z
      .strictObject({
        id: reference,
        to: appStorage.optional(),
        host: reference.optional(),
        dry_run: z.boolean().optional(),
      })
      .refine(({ to, host }) => (to === undefined) !== (host === undefined), {
        path: ['to'],
        error: 'is required unless `host` is given; give only one of them',
      }),
    output: z.strictObject({ ...MovePlan.shape, moved: z.boolean() }),
    errors: [
      'transition_conflict',
      'app_immovable',
      'move_failed',
      'insufficient_storage',
      'host_not_found',
      'host_unavailable',
    ],
  }),
] as const;
