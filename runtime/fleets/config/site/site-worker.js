// Implements the namespace `__STATIC_CONTENT` of Workers Sites: reads the release's files by the keys of its manifest.

import { env } from 'cloudflare:workers';

/** Maximum keys of one list, as in KV. */
const MAX_KEYS = 1_000;
/** Maximum keys of one bulk read, as in KV. */
const MAX_BULK_KEYS = 100;
/** Maximum bytes of the texts of one bulk read, as in KV. */
const MAX_BULK_BYTES = 25 * 2 ** 20;

const encoder = new TextEncoder();
const paths = new Map(Object.entries(env.MANIFEST).map(([path, key]) => [key, path]));
const keys = [...paths.keys()].sort();

export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (request.method === 'POST' && pathname === '/bulk/get') return bulk(await request.json());
    if (request.method !== 'GET') {
      // `put()` of the binding waits until its body was read.
      await request.body?.pipeTo(new WritableStream());
      return refuse(405, `Cannot ${request.method.toLowerCase()}() with Workers Sites namespace`);
    }
    if (pathname === '/') return list(searchParams);
    const key = decodeURIComponent(pathname.slice(1));
    return (await read(key)) ?? refuse(404, 'Not Found');
  },
};

/** Returns a response with the file of a key; null if the manifest lacks the key. */
async function read(key) {
  const path = paths.get(key);
  if (path === undefined) return null;
  const response = await env.FILES.fetch(`http://files/${path.split('/').map(encodeURIComponent).join('/')}`);
  if (!response.ok) throw new Error(`the file of the key ${key} cannot be read: ${response.status}`);
  return response;
}

function list(params) {
  const limit = Math.min(MAX_KEYS, Number(params.get('key_count_limit') ?? MAX_KEYS));
  if (!Number.isInteger(limit) || limit < 1)
    return refuse(400, 'Invalid key_count_limit: use an integer from 1');
  const prefix = params.get('prefix') ?? '';
  const after = params.get('cursor') ?? '';
  const found = keys.filter((key) => key.startsWith(prefix) && key > after);
  const page = found.slice(0, limit);
  const more =
    page.length < found.length ? { list_complete: false, cursor: page.at(-1) } : { list_complete: true };
  return Response.json({ keys: page.map((name) => ({ name })), ...more });
}

async function bulk({ keys: asked, type = 'text', withMetadata = false }) {
  if (asked.length > MAX_BULK_KEYS) return refuse(400, `You can request a maximum of ${MAX_BULK_KEYS} keys`);
  const values = {};
  let left = MAX_BULK_BYTES;
  for (const key of asked) {
    const text = (await (await read(key))?.text()) ?? null;
    if (text !== null) left -= encoder.encode(text).length;
    if (left < 0) return refuse(413, 'Total size of request exceeds the limit of 25MB');
    const value = text !== null && type === 'json' ? JSON.parse(text) : text;
    values[key] = withMetadata && value !== null ? { value, metadata: null } : value;
  }
  return Response.json(values);
}

function refuse(status, statusText) {
  return new Response(statusText, { status, statusText });
}
