// R2: buckets, and objects by key.

import * as z from 'zod';
import { operationsByName } from '../../contract/index.ts';
import { putObjectBody } from '../../services/storage/buckets.ts';
import { invoke } from '../../transports/invoke.ts';
import { requireAccount } from '../accounts.ts';
import { type CallContext, call, run } from '../call.ts';
import { CODES, unsupported, withCodes } from '../codes.ts';
import { findKept, findKeptBeforeDeploy, type Kept, keptOf, nameOfNew } from './kept.ts';

const BUCKETS = '/accounts/:account/r2/buckets';
const OBJECT = `${BUCKETS}/:bucket/objects/:key+`;
/** The query of `wrangler r2 bucket info`. */
const Metrics = z.object({
  operationName: z.literal('getR2StorageMetrics'),
  variables: z.object({ accountTag: z.string(), filter: z.object({ bucketName: z.string() }) }),
});
/** Maps Cellar's error code for a missing object to Cloudflare's code. */
const NO_OBJECT = { storage_not_found: CODES.SCRIPT_NOT_FOUND } as const;

export const bucketCalls = [
  call({
    method: 'GET',
    path: BUCKETS,
    as: 'storage.overview',
    answer: async (context) => ({ buckets: (await keptOf(context, 'buckets')).map(shown) }),
  }),
  call({
    method: 'POST',
    path: BUCKETS,
    as: 'apps.create',
    body: z.object({
      name: nameOfNew,
      storageClass: z.literal('Standard', 'must be Standard: Cellar has one storage class').optional(),
    }),
    answer: async ({ at }, { name }) => ({ name, creation_date: at }),
  }),
  call({
    method: 'GET',
    path: `${BUCKETS}/:bucket`,
    as: 'storage.overview',
    answer: async (context) => shown(await findKeptBeforeDeploy(context, 'buckets', context.words.bucket!)),
  }),
  call({
    method: 'POST',
    path: '/graphql',
    as: 'storage.overview',
    body: z.unknown(),
    answer: async (context, body) => {
      const { data: asked } = Metrics.safeParse(body);
      if (asked === undefined) throw unsupported('POST', '/graphql');
      const { accountTag, filter } = asked.variables;
      await requireAccount(context, accountTag);
      const { app, id } = await findKept({ ...context, account: accountTag }, 'buckets', filter.bucketName);
      const buckets = await context.host.call('GET /apps/:id/buckets', { id: app.id });
      const { objects = 0, bytes = 0 } = buckets.find(({ bucket }) => bucket === id) ?? {};
      const max = { objectCount: objects, payloadSize: bytes, metadataSize: 0 };
      return Response.json({ data: { viewer: { accounts: [{ r2StorageAdaptiveGroups: [{ max }] }] } } });
    },
  }),
  call({
    method: 'GET',
    path: OBJECT,
    as: 'storage.r2.raw',
    answer: (context) =>
      withCodes(NO_OBJECT, async () => {
        const operation = operationsByName.get('storage.r2.raw')!;
        const { output } = await invoke(operation, context, await placeOf(context), {
          transport: 'rest',
          key: null,
        });
        return output;
      }),
  }),
  call({
    method: 'PUT',
    path: OBJECT,
    as: 'storage.r2.put',
    answer: async (context) => {
      const place = await placeOf(context);
      const object = await putObjectBody(context, place, context.request);
      return { key: object.key, size: String(object.size), etag: object.etag, uploaded: object.uploaded_at };
    },
  }),
  call({
    method: 'DELETE',
    path: OBJECT,
    as: 'storage.r2.delete',
    answer: (context) =>
      withCodes(NO_OBJECT, async () => {
        await run(context, 'storage.r2.delete', await placeOf(context));
        return { key: context.words.key };
      }),
  }),
];

async function placeOf(context: CallContext): Promise<{ id: string; bucket: string; key: string }> {
  const { app, id } = await findKept(context, 'buckets', context.words.bucket!);
  return { id: app.id, bucket: id, key: context.words.key! };
}

function shown({ name, app }: Kept) {
  return { name, creation_date: app.created_at };
}
