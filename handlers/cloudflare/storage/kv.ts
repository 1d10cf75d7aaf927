// KV: namespaces, keys and raw values.
import * as z from 'zod';
import { operationsByName } from '../../contract/index.ts';
import { KV_VALUE_BYTES } from '../../contract/sizes.ts';
import { kvValue } from '../../contract/storage/storage.ts';
import { Problem } from '../../problem.ts';
import { fromBase64 } from '../../services/base64.ts';
import { putValue } from '../../services/storage/storage.ts';
import { UNTRUSTED } from '../../services/untrusted.ts';
import { readBytes } from '../../transports/body.ts';
import { admit } from '../../transports/invoke.ts';
import { holdBody, holderOf } from '../../transports/large-bodies.ts';
import { type CallContext, call, Page, run } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { findKept, keptOf, nameOfNew, numberedPage } from './kept.ts';

const NAMESPACES = '/accounts/:account/storage/kv/namespaces';
const VALUES = `${NAMESPACES}/:namespace/values/:key+`;
/** Maximum bytes that a form adds to its value. */
const FORM_BYTES = 64 * 1024;
/** The latest time that a JavaScript `Date` can have, in s since 1970. */
const MAX_DATE_S = 8.64e12;
/**
 * Maximum bytes of a bulk call: enough for one value of `KV_VALUE_BYTES` in base64. Wrangler splits bulk input by the number
 * of keys, not by bytes.
 */
const BULK_BYTES = 36 * 2 ** 20;
/** Maximum keys of one page, as in Cellar's own API. */
const PAGE = 200;

const Entry = z
  .object({
    key: z.string(),
    value: z.string(),
    base64: z.boolean().optional(),
    expiration: z.number().optional(),
    expiration_ttl: z.number().optional(),
    metadata: z.unknown().optional(),
  })
  .refine(({ value, base64 }) => base64 !== true || isBase64(value), {
    path: ['value'],
    error: ({ input }) => `of the key ${JSON.stringify((input as { key: string }).key)} must be base64`,
  });

export const namespaceCalls = [
  call({
    method: 'GET',
    path: NAMESPACES,
    as: 'storage.overview',
    answer: async (context) =>
      numberedPage(
        context,
        // The title is also the id, as in the answer to `wrangler kv namespace create`.
        (await keptOf(context, 'namespaces')).map(({ name }) => ({
          id: name,
          title: name,
          supports_url_encoding: true,
        })),
      ),
  }),
  call({
    method: 'POST',
    path: NAMESPACES,
    as: 'apps.create',
    body: z.object({ title: nameOfNew }),
    answer: async (_context, { title }) => ({ id: title, title, supports_url_encoding: true }),
  }),
  call({
    method: 'GET',
    path: `${NAMESPACES}/:namespace/keys`,
    as: 'storage.kv.list',
    answer: async (context) => {
      const { searchParams } = context.url;
      const limit = Math.min(PAGE, Math.max(1, Number(searchParams.get('limit') ?? PAGE) || PAGE));
      const page = await run(context, 'storage.kv.list', {
        ...(await namespaceOf(context)),
        prefix: searchParams.get('prefix') ?? '',
        limit,
        cursor: searchParams.get('cursor') || undefined,
      });
      const items = page.items.map(({ key, expires_at, metadata }) => ({
        name: key,
        ...(expires_at !== null && { expiration: Math.floor(Date.parse(expires_at) / 1000) }),
        ...(metadata !== null && { metadata }),
      }));
      return new Page(items, { count: items.length, cursor: page.next_cursor ?? '' });
    },
  }),
  call({
    method: 'GET',
    path: VALUES,
    as: 'storage.kv.get',
    answer: async (context) => {
      const key = context.words.key!;
      const { value_base64, expires_at } = await readValue(context, key);
      const expiration =
        expires_at === null ? {} : { expiration: String(Math.floor(Date.parse(expires_at) / 1000)) };
      return new Response(fromBase64(value_base64), {
        headers: { ...UNTRUSTED, 'content-type': 'application/octet-stream', ...expiration },
      });
    },
  }),
  call({
    method: 'PUT',
    path: VALUES,
    as: 'storage.kv.put',
    answer: async (context) => {
      const { searchParams } = context.url;
      const { value, metadata } = await bodyOf(context);
      const entry = {
        key: context.words.key!,
        expiration: numberOf(searchParams.get('expiration')),
        expiration_ttl: numberOf(searchParams.get('expiration_ttl')),
        metadata,
      };
      await put(context, entry, value);
      return null;
    },
  }),
  call({
    method: 'DELETE',
    path: VALUES,
    as: 'storage.kv.delete',
    answer: async (context) =>
      run(context, 'storage.kv.delete', { ...(await namespaceOf(context)), key: context.words.key! }),
  }),
  call({
    method: 'PUT',
    path: `${NAMESPACES}/:namespace/bulk`,
    as: 'storage.kv.put',
    body: z.array(Entry).max(10_000),
    bodyLimit: BULK_BYTES,
    answer: async (context, entries) => {
      for (const { value, base64, ...entry } of entries)
        await put(context, entry, new Blob([base64 ? fromBase64(value) : value]));
      return { successful_key_count: entries.length, unsuccessful_keys: [] };
    },
  }),
  call({
    method: 'DELETE',
    path: `${NAMESPACES}/:namespace/bulk`,
    as: 'storage.kv.delete',
    body: z.array(z.string()).max(10_000),
    bodyLimit: BULK_BYTES,
    answer: async (context, keys) => removeAll(context, keys),
  }),
  call({
    method: 'POST',
    path: `${NAMESPACES}/:namespace/bulk/delete`,
    as: 'storage.kv.delete',
    body: z.array(z.string()).max(10_000),
    bodyLimit: BULK_BYTES,
    answer: async (context, keys) => removeAll(context, keys),
  }),
  call({
    method: 'POST',
    path: `${NAMESPACES}/:namespace/bulk/get`,
    as: 'storage.kv.get',
    body: z.object({ keys: z.array(z.string()).max(100) }),
    answer: async (context, { keys }) => {
      const values: Record<string, string | null> = {};
      let left = KV_VALUE_BYTES;
      for (const key of keys) {
        const found = await readValue(context, key).catch((error: unknown) => {
          if (error instanceof CloudflareError && error.code === CODES.KEY_NOT_FOUND) return null;
          throw error;
        });
        const value = found && fromBase64(found.value_base64);
        left -= value?.length ?? 0;
        if (left < 0)
          throw new CloudflareError(
            413,
            CODES.BAD_REQUEST,
            `The values have more than ${KV_VALUE_BYTES} bytes together. Read fewer keys at once.`,
          );
        values[key] = value && new TextDecoder().decode(value);
      }
      return { values };
    },
  }),
];

/** Caches the namespace that the path names, by request. */
const found = new WeakMap<Request, { id: string; namespace_id: string }>();
async function namespaceOf(context: CallContext): Promise<{ id: string; namespace_id: string }> {
  const known = found.get(context.request);
  if (known) return known;
  const { app, id } = await findKept(context, 'namespaces', context.words.namespace!);
  const place = { id: app.id, namespace_id: id };
  found.set(context.request, place);
  return place;
}

async function readValue(context: CallContext, key: string) {
  const place = await namespaceOf(context);
  try {
    return await run(context, 'storage.kv.get', { ...place, key });
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'storage_not_found') throw error;
    throw new CloudflareError(404, CODES.KEY_NOT_FOUND, `The namespace has no key ${JSON.stringify(key)}.`);
  }
}

async function put(
  context: CallContext,
  { key, expiration, expiration_ttl: ttl, metadata }: Omit<z.output<typeof Entry>, 'value' | 'base64'>,
  value: Blob | ReadableStream<Uint8Array>,
): Promise<void> {
  if (value instanceof Blob && value.size > KV_VALUE_BYTES) throw tooLarge();
  const at = expiration ?? (ttl === undefined ? undefined : Math.ceil(Date.now() / 1000) + ttl);
  if (at !== undefined && !(Math.abs(at) <= MAX_DATE_S))
    throw new CloudflareError(400, CODES.BAD_REQUEST, 'The expiration must be a time in seconds since 1970.');
  const entry = {
    ...(await namespaceOf(context)),
    key,
    ...(at !== undefined && { expires_at: new Date(at * 1000).toISOString() }),
    ...(metadata !== undefined && metadata !== null && { metadata }),
  };
  const { checked } = await admit(context, operationsByName.get('storage.kv.put')!, kvValue, entry);
  await putValue(context, checked, value);
}

function tooLarge(): Problem {
  return new Problem('body_too_large', `A value may have at most ${KV_VALUE_BYTES} bytes.`);
}

function isBase64(text: string): boolean {
  try {
    fromBase64(text);
    return true;
  } catch {
    return false;
  }
}

async function removeAll(context: CallContext, keys: string[]) {
  for (const key of keys) await run(context, 'storage.kv.delete', { ...(await namespaceOf(context)), key });
  return { successful_key_count: keys.length, unsuccessful_keys: [] };
}

/** A value with its metadata. It is a `Blob` in memory when it came in a form, or without a `Content-Length`. */
interface KvBody {
  value: Blob | ReadableStream<Uint8Array>;
  metadata?: unknown;
}

/** Returns the value of a raw body, or of the form fields `value` and `metadata`. */
async function bodyOf(context: CallContext): Promise<KvBody> {
  const { request } = context;
  const type = request.headers.get('content-type') ?? '';
  const length = request.headers.get('content-length');
  const isForm = type.startsWith('multipart/form-data');
  if (isForm || length === null) holdBody(request, holderOf(context));
  if (isForm) return formOf(request, type);
  if (length === null) return { value: new Blob([await readBytes(request, KV_VALUE_BYTES)]) };
  if (Number(length) > KV_VALUE_BYTES) throw tooLarge();
  const body = request.body ?? new Blob([]).stream();
  return { value: body.pipeThrough(new FixedLengthStream(Number(length))) };
}

async function formOf(request: Request, type: string): Promise<KvBody> {
  const bytes = await readBytes(request, KV_VALUE_BYTES + FORM_BYTES);
  const form = await new Response(bytes, { headers: { 'content-type': type } }).formData().catch(() => {
    throw new CloudflareError(400, CODES.BAD_REQUEST, 'The body must be a complete multipart/form-data.');
  });
  const [value, metadata] = [form.get('value') ?? '', form.get('metadata')];
  return {
    value: new Blob([value]),
    ...(typeof metadata === 'string' && metadata !== '' && { metadata: parsed(metadata) }),
  };
}

function parsed(metadata: string): unknown {
  try {
    return JSON.parse(metadata);
  } catch {
    throw new CloudflareError(400, CODES.BAD_REQUEST, 'The metadata is not JSON.');
  }
}

function numberOf(text: string | null): number | undefined {
  return text === null || text === '' ? undefined : Number(text);
}
