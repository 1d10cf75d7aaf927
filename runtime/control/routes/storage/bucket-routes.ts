// The handlers' calls about objects in apps' R2 buckets.
import { pipeline } from 'node:stream/promises';
import type { HostCall, HostCalls } from '../../../../handlers/contract/host/host-routes.ts';
import type { Apps } from '../../../apps/apps.ts';
import { reason } from '../../../log.ts';
import { noSuchApp, Refusal } from '../../../refusal.ts';
import { find } from '../../../storage/places.ts';
import type { Buckets } from '../../../storage/r2/buckets.ts';
import { type Body, BucketClient, type DescribedObject } from '../../../storage/r2/client.ts';
import type { StorageQueries } from '../../../storage/storage-queries.ts';
import { type Call, type HostRoutes, readJson } from '../../host-call.ts';

export type BucketCall = Extract<HostCall, `${string}/r2/${string}` | `${string}/buckets`>;
type Described = HostCalls['GET /apps/:id/r2/head']['answer'];

export interface BucketOptions {
  storageQueries: StorageQueries;
  apps: Apps;
  buckets: Buckets;
}

export function bucketRoutes(options: BucketOptions): Pick<HostRoutes, BucketCall> {
  const { storageQueries, buckets } = options;
  return {
    'GET /apps/:id/buckets': async ({ words }) => {
      const [appId] = words as [string];
      const known = (await storageQueries.places(appId)).buckets;
      const hasObjects = known.length > 0 && buckets.has(appId);
      if (hasObjects) await opened(buckets, appId);
      const usage = hasObjects ? await buckets.usage(appId) : [];
      return known.map(({ id, binding, storageId }) => {
        const { objects = 0, bytes = 0 } = usage.find(({ bucket }) => bucket === storageId) ?? {};
        return { bucket: id, binding, objects, bytes };
      });
    },
    'GET /apps/:id/r2/list': (call) =>
      during(options, call, async (bucket) => {
        const { query } = call;
        const [prefix, cursor, delimiter] = ['prefix', 'cursor', 'delimiter'].map((name) => query.get(name));
        const page = await bucket.list({
          limit: Number(query.get('limit')),
          ...(prefix && { prefix }),
          ...(cursor && { cursor }),
          ...(delimiter && { delimiter }),
        });
        return {
          items: page.objects.map(described),
          next: page.cursor ?? null,
          prefixes: page.delimitedPrefixes,
        };
      }),
    'GET /apps/:id/r2/head': (call) =>
      during(options, call, async (bucket) => described(await bucket.head(keyOf(call)))),
    'GET /apps/:id/r2/bytes': (call) =>
      during(options, call, async (bucket) => {
        const { query, response } = call;
        const part = { offset: Number(query.get('offset')), length: Number(query.get('length')) };
        const bytes = await bucket.bytes(keyOf(call), query.get('etag') ?? '', part);
        response.writeHead(200, {
          'content-type': 'application/octet-stream',
          'content-length': part.length,
        });
        // A failed read breaks the response off, so that the client notices it.
        await pipeline(bytes, response).catch(() => response.destroy());
      }),
    'PUT /apps/:id/r2/object': (call) =>
      changing(options, call, async (bucket) =>
        described(await bucket.put(keyOf(call), bodyOf(call), saidOf(call))),
      ),
    'PUT /apps/:id/r2/part': (call) =>
      changing(options, call, async (bucket) => {
        const part = Number(call.query.get('part'));
        return { part, etag: await bucket.uploadPart(keyOf(call), uploadOf(call), part, bodyOf(call)) };
      }),
    'POST /apps/:id/r2/uploads': (call) =>
      changing(options, call, async (bucket) => ({
        upload_id: await bucket.createUpload(keyOf(call), saidOf(call)),
      })),
    'POST /apps/:id/r2/complete': (call) =>
      changing(options, call, async (bucket) => {
        const parts = await readJson<'POST /apps/:id/r2/complete'>(call.request);
        return described(await bucket.completeUpload(keyOf(call), uploadOf(call), parts));
      }),
    'DELETE /apps/:id/r2/upload': (call) =>
      changing(options, call, async (bucket) => {
        await bucket.abortUpload(keyOf(call), uploadOf(call));
        return null;
      }),
    'DELETE /apps/:id/r2/object': (call) =>
      changing(options, call, async (bucket) => {
        // Throws for a missing object.
        await bucket.head(keyOf(call));
        await bucket.delete(keyOf(call));
        return null;
      }),
  };
}

/** Calls `work` with the bucket that a call names. @throws {Refusal} for an unknown app or bucket; as `opened` does */
async function during<T>(
  { apps, storageQueries, buckets }: BucketOptions,
  { words, query }: Call,
  work: (bucket: BucketClient) => Promise<T>,
): Promise<T> {
  const [appId] = words as [string];
  if (!apps.get(appId)) throw noSuchApp();
  const bucket = query.get('bucket') ?? '';
  const found = find((await storageQueries.places(appId)).buckets, bucket);
  if (found === undefined) throw new Refusal(404, 'storage_not_found', `the app has no bucket ${bucket}`);
  return work(new BucketClient(await opened(buckets, appId), found.storageId));
}

/** As `during`, for a change: a move of the app waits until `work` has ended. @throws {Refusal} also while the app moves */
async function changing<T>(
  options: BucketOptions,
  call: Call,
  work: (bucket: BucketClient) => Promise<T>,
): Promise<T> {
  const app = options.apps.get(options.apps.originOf(call.words[0]!));
  if (!app) throw noSuchApp();
  return app.changes.during(() => during(options, call, work));
}

/** Returns the socket that serves an app's buckets. @throws {Refusal} 503 when it cannot be opened */
async function opened(buckets: Buckets, appId: string): Promise<string> {
  return buckets.open(appId).catch((error: unknown) => {
    throw new Refusal(503, 'host_unavailable', reason(error));
  });
}

function keyOf({ query }: Call): string {
  return query.get('key') ?? '';
}

function uploadOf({ query }: Call): string {
  return query.get('upload') ?? '';
}

function bodyOf({ request }: Call): Body {
  return { size: Number(request.headers['content-length']), bytes: request };
}

/** Returns the properties that a call gives to the new object. */
function saidOf({ query }: Call): Pick<DescribedObject, 'httpFields' | 'customFields'> {
  const { metadata = {}, ...http } = JSON.parse(query.get('described') ?? '{}') as {
    metadata?: Record<string, string>;
    content_type?: string;
    content_language?: string;
    content_disposition?: string;
    content_encoding?: string;
    cache_control?: string;
    cache_expiry?: number;
  };
  return {
    httpFields: {
      contentType: http.content_type,
      contentLanguage: http.content_language,
      contentDisposition: http.content_disposition,
      contentEncoding: http.content_encoding,
      cacheControl: http.cache_control,
      cacheExpiry: http.cache_expiry,
    },
    customFields: Object.entries(metadata).map(([k, v]) => ({ k, v })),
  };
}

function described({ name, size, etag, uploaded, httpFields, customFields }: DescribedObject): Described {
  return {
    key: name,
    size,
    etag,
    uploaded_at: new Date(uploaded).toISOString(),
    content_type: httpFields.contentType ?? null,
    metadata: Object.fromEntries(customFields.map(({ k, v }) => [k, v])),
  };
}
