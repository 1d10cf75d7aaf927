// Objects in apps' R2 buckets. These operations also work while the app is stopped.
import type { Context } from '../../context.ts';
import type { HostObject, UploadedPart } from '../../contract/host/host-routes.ts';
import { R2_INLINE_BYTES, R2_OBJECT_BYTES, R2_PART_BYTES, R2_RPC_BYTES } from '../../contract/sizes.ts';
import { Problem } from '../../problem.ts';
import { type Part, partOf } from '../../range.ts';
import { invalidInput } from '../../transports/validate.ts';
import { fromBase64, toBase64 } from '../base64.ts';
import { decodeCursor, encodeCursor } from '../cursor.ts';
import type { Service } from '../types.ts';
import { UNTRUSTED } from '../untrusted.ts';

/** Maximum attempts to read an object that changes concurrently. */
const TRIES = 3;
/**
 * Headers of a put that become HTTP metadata of the object, with their maximum characters. `Expires` does too, but it is a
 * date.
 */
const DESCRIBING_HEADERS = {
  'content-type': 200,
  'content-language': 200,
  'content-encoding': 200,
  'content-disposition': 500,
  'cache-control': 500,
};

/** Location of an object: `id` is the app's id. */
interface Place {
  id: string;
  bucket: string;
  key: string;
}

const list: Service<'storage.r2.list'> = async (
  context,
  { id, bucket, prefix, delimiter, limit, cursor },
) => {
  const name = `storage.r2.list ${id} ${bucket}`;
  const [from] = decodeCursor(name, cursor, 1) ?? [];
  const asked = { bucket, prefix, delimiter, limit, cursor: from };
  const { items, next, prefixes } = await context.host.call(
    'GET /apps/:id/r2/list',
    { id },
    { query: asked },
  );
  return {
    items: items.map(({ key, size, etag, uploaded_at }) => ({ key, size, etag, uploaded_at })),
    next_cursor: encodeCursor(name, next === null ? null : [next]),
    ...(delimiter !== undefined && { prefixes }),
  };
};

const get: Service<'storage.r2.get'> = (context, place) =>
  unchanged(async () => {
    const object = await headOf(context, place);
    if (object.size > R2_INLINE_BYTES) return { ...object, content_base64: null };
    const response = await bytesOf(context, place, object, { offset: 0, length: object.size });
    return { ...object, content_base64: await base64Of(response) };
  });

const raw: Service<'storage.r2.raw'> = async (context, { range, ...place }, transport) =>
  unchanged(async () => {
    const object = await headOf(context, place);
    const part = partOf(range, object.size);
    const { offset, length } = part ?? { offset: 0, length: object.size };
    if (transport === 'rest')
      return rawResponse(object, part, await bytesOf(context, place, object, { offset, length }));
    if (length > R2_RPC_BYTES) {
      const detail = `There are ${length} bytes, more than the ${R2_RPC_BYTES} of one response; read a range.`;
      throw new Problem('file_too_large', detail);
    }
    return { content_base64: await base64Of(await bytesOf(context, place, object, { offset, length })) };
  });

const put: Service<'storage.r2.put'> = async (
  context,
  { content_base64, content_type, metadata, ...place },
) => {
  return putObject(context, place, { content_type, metadata }, new Blob([fromBase64(content_base64)]));
};

const createUpload: Service<'storage.r2.create_upload'> = async (
  context,
  { content_type, metadata, ...place },
) => {
  const query = { ...named(place), described: JSON.stringify({ content_type, metadata }) };
  return context.host.call('POST /apps/:id/r2/uploads', { id: place.id }, { query });
};

const completeUpload: Service<'storage.r2.complete_upload'> = async (
  context,
  { upload_id, parts, ...place },
) => {
  const query = { ...named(place), upload: upload_id };
  return context.host.call('POST /apps/:id/r2/complete', { id: place.id }, { query, body: parts });
};

const abortUpload: Service<'storage.r2.abort_upload'> = async (context, { upload_id, ...place }) => {
  const query = { ...named(place), upload: upload_id };
  return context.host.call('DELETE /apps/:id/r2/upload', { id: place.id }, { query });
};

/**
 * Streams a request's body into an object, without buffering. The object keeps the headers that describe the body. The
 * caller must have authorized the request.
 * @throws {Problem} `invalid_input` without a Content-Length or for an invalid header of the metadata, `body_too_large`,
 *   `quota_exceeded`, `request_timeout`
 */
export async function putObjectBody(context: Context, place: Place, request: Request): Promise<HostObject> {
  const body = bodyOf(request, R2_OBJECT_BYTES);
  return putObject(context, place, describedBy(request.headers), body);
}

/** Returns the HTTP metadata that a put's headers give to the object. @throws {Problem} `invalid_input` */
function describedBy(headers: Headers): Record<string, string | number> {
  const described: Record<string, string | number> = {};
  for (const [name, limit] of Object.entries(DESCRIBING_HEADERS)) {
    const value = headers.get(name);
    if (value === null) continue;
    if (value.length > limit)
      throw invalidInput([{ path: name, message: `has ${value.length} characters, more than ${limit}` }]);
    described[name.replace('-', '_')] = value;
  }
  const expires = headers.get('expires');
  if (expires === null) return described;
  const cache_expiry = Date.parse(expires);
  if (Number.isNaN(cache_expiry))
    throw invalidInput([
      { path: 'expires', message: 'is not a date, such as Wed, 21 Oct 2026 07:28:00 GMT' },
    ]);
  // The R2 binding reads `cache_expiry` as an unsigned number.
  return { ...described, cache_expiry: Math.max(0, cache_expiry) };
}

/** Like `putObjectBody`, for a part of a multipart upload. */
export async function putPartBody(
  context: Context,
  place: Place,
  of: { upload: string; part: number },
  request: Request,
): Promise<UploadedPart> {
  const given = { query: { ...named(place), ...of }, body: bodyOf(request, R2_PART_BYTES) };
  return context.host.call('PUT /apps/:id/r2/part', { id: place.id }, given);
}

/** Returns a request's body. Its length must be known, because the host checks the free space first. */
function bodyOf({ headers, body }: Request, limitBytes: number): ReadableStream<Uint8Array> {
  const length = headers.get('content-length') ?? '';
  if (!/^\d{1,15}$/.test(length)) {
    const detail = 'Storing an object needs the header Content-Length.';
    throw new Problem('invalid_input', detail, [{ path: 'Content-Length', message: 'is required' }]);
  }
  if (Number(length) > limitBytes)
    throw new Problem(
      'body_too_large',
      `The body has ${length} bytes; at most ${limitBytes} are allowed here.`,
    );
  return (body ?? new Blob([]).stream()).pipeThrough(new FixedLengthStream(Number(length)));
}

const remove: Service<'storage.r2.delete'> = (context, place) =>
  context.host.call('DELETE /apps/:id/r2/object', { id: place.id }, { query: named(place) });

/** Returns an object's bucket and key, which the host's calls take in the query. */
function named({ bucket, key }: Place) {
  return { bucket, key };
}

function headOf({ host }: Context, place: Place): Promise<HostObject> {
  return host.call('GET /apps/:id/r2/head', { id: place.id }, { query: named(place) });
}

function putObject(
  { host }: Context,
  place: Place,
  described: object,
  body: Blob | ReadableStream<Uint8Array>,
): Promise<HostObject> {
  const query = { ...named(place), described: JSON.stringify(described) };
  return host.call('PUT /apps/:id/r2/object', { id: place.id }, { query, body });
}

/** Runs `work` again when the object was changed between the read of its metadata and the read of its bytes. */
async function unchanged<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const isChanged = error instanceof Problem && error.code === 'transition_conflict';
      if (!isChanged || tries === TRIES) throw error;
    }
  }
}

function bytesOf(
  { host }: Context,
  { id, bucket, key }: Place,
  { etag }: HostObject,
  part: Part,
): Promise<Response> {
  return host.bytes('GET /apps/:id/r2/bytes', { id }, { query: { bucket, key, etag, ...part } });
}

/** Returns the response with an object's bytes. `UNTRUSTED`: a browser must not run them at the API's origin. */
function rawResponse(
  { size, etag, key, content_type }: HostObject,
  part: Part | null,
  { body }: Response,
): Response {
  const { offset, length } = part ?? { offset: 0, length: size };
  const name = encodeURIComponent(key.slice(key.lastIndexOf('/') + 1).toWellFormed()).replace(
    /['()*]/g,
    escaped,
  );
  return new Response(body, {
    status: part === null ? 200 : 206,
    headers: {
      ...UNTRUSTED,
      'content-type': safeType(content_type),
      'content-length': String(length),
      'content-disposition': `inline; filename*=UTF-8''${name}`,
      'accept-ranges': 'bytes',
      etag: `"${etag}"`,
      ...(part && { 'content-range': `bytes ${offset}-${offset + length - 1}/${size}` }),
    },
  });
}

function escaped(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** Returns the content type of an object if it is valid, else `application/octet-stream`. */
function safeType(type: string | null): string {
  return type !== null && /^[\w.+-]+\/[\w.+-]+(?:\s*;\s*[\w-]+="?[\w.+-]+"?)*$/.test(type)
    ? type
    : 'application/octet-stream';
}

async function base64Of(response: Response): Promise<string> {
  return toBase64(new Uint8Array(await response.arrayBuffer()));
}

export const bucketServices = {
  'storage.r2.list': list,
  'storage.r2.get': get,
  'storage.r2.raw': raw,
  'storage.r2.put': put,
  'storage.r2.create_upload': createUpload,
  'storage.r2.complete_upload': completeUpload,
  'storage.r2.abort_upload': abortUpload,
  'storage.r2.delete': remove,
};
