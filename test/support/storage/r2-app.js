// A Worker that calls its bucket as the request says and returns the results. Runs under Miniflare and as a Cellar app.

/** Converts JSON placeholders to bytes, dates, headers, and streams of `n` bytes. */
function revive(value) {
  if (Array.isArray(value)) return value.map(revive);
  if (value === null || typeof value !== 'object') return value;
  if (typeof value.$bytes === 'string') return new TextEncoder().encode(value.$bytes);
  if (typeof value.$hex === 'string') return Uint8Array.fromHex(value.$hex).buffer;
  if (typeof value.$date === 'number') return new Date(value.$date);
  if (value.$headers) return new Headers(value.$headers);
  if (typeof value.$fill === 'number') return new Uint8Array(value.$fill).fill(value.with ?? 120);
  if (typeof value.$stream === 'number') return fill(value.$stream);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, revive(each)]));
}

function fill(size) {
  const { readable, writable } = new FixedLengthStream(size);
  const writer = writable.getWriter();
  (async () => {
    const chunk = new Uint8Array(65536).fill(115);
    for (let left = size; left > 0; left -= chunk.length) await writer.write(chunk.subarray(0, left));
    await writer.close();
  })().catch(() => {});
  return readable;
}

async function toJson(value) {
  if (value === null || value === undefined || typeof value !== 'object') return value ?? null;
  if (value.objects) {
    const { truncated, delimitedPrefixes, cursor } = value;
    return {
      objects: await Promise.all(value.objects.map(toJson)),
      truncated,
      delimitedPrefixes,
      $cursor: cursor,
    };
  }
  if (value.uploadId) return { key: value.key, $uploadId: value.uploadId };
  if (value.partNumber) return { partNumber: value.partNumber, $etag: value.etag };
  const { key, size, etag, httpEtag, httpMetadata, customMetadata, range } = value;
  const headers = new Headers();
  if (httpMetadata) value.writeHttpMetadata(headers);
  return {
    ...{ key, size, etag, httpEtag, httpMetadata, customMetadata, range },
    checksums: value.checksums.toJSON(),
    headers: [...headers],
    $version: value.version,
    $uploaded: value.uploaded.getTime(),
    $storageClass: value.storageClass,
    ...('body' in value ? await bodyOf(value) : {}),
  };
}

async function bodyOf(object) {
  const bytes = await object.arrayBuffer();
  if (bytes.byteLength <= 2048) return { body: new Uint8Array(bytes).toHex() };
  const digest = await crypto.subtle.digest('SHA-256', bytes);
  return { bodySize: bytes.byteLength, bodyDigest: new Uint8Array(digest).toHex() };
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const key = url.searchParams.get('key') ?? 'k';
    if (url.pathname === '/raw') {
      if (request.method === 'PUT')
        return Response.json(await toJson(await env.BUCKET.put(key, request.body)));
      const object = await env.BUCKET.get(key);
      return object === null ? new Response('none', { status: 404 }) : new Response(object.body);
    }
    const answers = [];
    for (const [method, ...values] of await request.json()) {
      // Upload ids, cursors and etags differ between servers: a step number stands for the one that this step returned.
      const at = (n) => answers[n]?.value;
      const args = values.map((value) => {
        if (value?.$cursorOf !== undefined) return { ...revive(value), cursor: at(value.$cursorOf)?.$cursor };
        if (value?.$etagOf !== undefined) return { onlyIf: { [value.as]: at(value.$etagOf)?.etag } };
        return revive(value);
      });
      try {
        let result;
        if (method === 'uploadPart' || method === 'complete' || method === 'abort') {
          const [from, ...rest] = args;
          const made =
            typeof from === 'number'
              ? at(from)
              : { key: from.key, $uploadId: from.uploadId ?? at(from.of)?.$uploadId };
          const upload = env.BUCKET.resumeMultipartUpload(made.key, made.$uploadId);
          if (method === 'complete') {
            const parts = rest[0].map(([n, step, etag]) => ({
              partNumber: n,
              etag: etag ?? at(step)?.$etag,
            }));
            result = await upload.complete(parts);
          } else result = await upload[method](...rest);
        } else result = await env.BUCKET[method](...args);
        answers.push({ value: await toJson(result) });
      } catch (error) {
        answers.push({ error: `${error.name}: ${error.message}` });
      }
    }
    return Response.json(answers);
  },
};
