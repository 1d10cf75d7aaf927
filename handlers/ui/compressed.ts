// Compresses answers of the API for browsers.

/** Minimum size of JSON that is compressed, in bytes. */
const COMPRESSED_BYTES = 1_000;

/**
 * Compresses JSON of at least `COMPRESSED_BYTES` if the browser accepts gzip. The API itself compresses nothing, because its
 * other clients are usually close in the network. Does not compress files, which have an etag, because a browser resumes an
 * interrupted download at a byte offset.
 */
export function compressed(response: Response, accepted: string): Response {
  const { headers, body } = response;
  const isJson = headers.get('content-type')?.startsWith('application/json') === true;
  const length = Number(headers.get('content-length') ?? COMPRESSED_BYTES);
  const isWhole = response.status === 200 && !headers.has('content-encoding') && !headers.has('etag');
  if (!isWhole || !isJson || body === null || length < COMPRESSED_BYTES || !/\bgzip\b/.test(accepted))
    return response;
  const { status } = response;
  const sent = new Headers(headers);
  sent.set('content-encoding', 'gzip');
  sent.append('vary', 'accept-encoding');
  sent.delete('content-length');
  const init = { status, headers: sent, encodeBody: 'manual' as const };
  return new Response(body.pipeThrough(new CompressionStream('gzip')), init);
}
