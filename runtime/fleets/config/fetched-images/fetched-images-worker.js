// Transforms images that the app fetches with `cf.image`. The app's own `fetch()` fetches the original, so `cf.image` gives
// the app no access to more addresses. The images service gets only the bytes.
import { env } from 'cloudflare:workers';

const BINDING = 'cellar images';
/** Maximum total size of the images of a call, in bytes, as in the images service. */
const MAX_BYTES = 32 * 2 ** 20;
/** Maximum images that one call draws, as in the images service. */
const MAX_DRAWN = 16;
/** The text in `Via` of requests for originals, as on Cloudflare. A request with this text is a loop, and is refused. */
const LOOP = 'image-resizing';
/** Headers of the original that its transformed image has too. */
const KEPT = ['access-control-allow-origin', 'cache-control', 'expires', 'last-modified'];
/** Request headers that ask for a part of an image, or only for a changed image. */
const PARTIAL = [
  'range',
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
];

/** workerd's own globals, taken before the app can replace them. */
const { Blob, FormData, Headers, Request, Response, URL, fetch } = globalThis;
const { [BINDING]: service } = env;
delete env[BINDING];

if (service !== undefined)
  globalThis.fetch = {
    fetch(...values) {
      return imageOf(...values) === null ? fetch(...values) : fetchImage(...values);
    },
  }.fetch;

/** Returns the image options of a call of `fetch()`; null when the call does not transform an image. */
function imageOf(input, init) {
  const cf = init?.cf ?? (input instanceof Request ? input.cf : undefined);
  const image = cf?.image;
  return typeof image === 'object' && image !== null && Object.keys(image).length > 0 ? image : null;
}

/** A failure with Cloudflare's error code. `response` is the response of `fetch()`. */
class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }

  get response() {
    const headers = { 'content-type': 'text/plain; charset=utf-8', 'cf-resized': `err=${this.code}` };
    return new Response(`ERROR ${this.code}: ${this.message}`, { status: this.status, headers });
  }
}

async function fetchImage(input, init) {
  const image = imageOf(input, init);
  const request = new Request(input, init);
  if (request.method !== 'GET') return fetch(request);
  try {
    return await transformed(request, image);
  } catch (error) {
    if (error instanceof Refusal) return error.response;
    throw error;
  }
}

async function transformed(request, image) {
  if ((request.headers.get('via') ?? '').includes(LOOP))
    throw new Refusal(403, 9403, 'a request for an original must not transform it again: see its Via header');
  const { draw = [] } = image;
  if (!Array.isArray(draw) || draw.length > MAX_DRAWN || draw.some((each) => typeof each?.url !== 'string'))
    throw new Refusal(400, 9401, `draw: a list of at most ${MAX_DRAWN} objects with a "url"`);
  const left = { bytes: MAX_BYTES };
  const original = await fetchOriginal(request, image, request.url);
  const form = new FormData();
  form.append('image', await blobOf(original, left));
  for (const { url } of draw)
    form.append('draw_image', await blobOf(await fetchOriginal(request, image, url), left));
  form.append('options', JSON.stringify(image));
  form.append('accept', request.headers.get('accept') ?? '');
  return answerFor(original, image, await sent(form, request.signal));
}

/**
 * Returns the headers of a request for an original. As on Cloudflare, the app's headers, such as cookies, are sent only with
 * `origin-auth: share-publicly`, and to the origin of the app's request. `user-agent` is always sent.
 */
function headersFor(request, image, url) {
  const isShared = image['origin-auth'] === 'share-publicly' && originOf(url) === originOf(request.url);
  const headers = new Headers(isShared ? request.headers : {});
  for (const name of PARTIAL) headers.delete(name);
  const agent = request.headers.get('user-agent');
  if (agent !== null) headers.set('user-agent', agent);
  headers.set('accept', 'image/*');
  headers.append('via', `1.1 ${LOOP}`);
  return headers;
}

function originOf(url) {
  return URL.parse(url)?.origin;
}

async function fetchOriginal(request, image, url) {
  const { signal } = request;
  let answer;
  try {
    answer = await fetch(url, { headers: headersFor(request, image, url), signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Refusal(502, 9504, `the server of the image cannot be reached: ${error?.message}`);
  }
  const { ok, status } = answer;
  if (ok) return answer;
  await answer.body?.cancel();
  if (status === 404) throw new Refusal(404, 9404, 'there is no image at this address');
  const code = status >= 500 ? 9509 : 9408;
  throw new Refusal(
    code === 9408 && status >= 400 ? status : 502,
    code,
    `the server of the image answered ${status}`,
  );
}

/** Returns the bytes of an image. @param left the bytes that remain for all images of the call */
async function blobOf(answer, left) {
  const chunks = [];
  for await (const chunk of answer.body ?? []) {
    left.bytes -= chunk.byteLength;
    if (left.bytes < 0)
      throw new Refusal(413, 9402, `the images of a call may have at most ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return new Blob(chunks);
}

async function sent(form, signal) {
  try {
    return await service.fetch('http://images/fetched', { method: 'POST', body: form, signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Refusal(502, 9523, 'the images service failed');
  }
}

function answerFor(original, image, { status, headers: given, body }) {
  const failure = given.get('cf-images-binding');
  const headers = new Headers({ 'content-type': given.get('content-type') });
  headers.set('cf-resized', failure ?? 'internal=ok/m');
  if (failure !== null) return new Response(body, { status, headers });
  for (const name of KEPT) {
    const value = original.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  if (image.format === 'auto') headers.set('vary', 'accept');
  return new Response(body, { headers });
}
