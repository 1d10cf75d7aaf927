/** The largest allowed file, in bytes. */
const LIMIT = 100 * 1024 * 1024;

export default {
  /** Answers requests for paths that are not files in `public/`. */
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/files') {
      const { objects } = await env.FILES.list({ limit: 200 });
      return Response.json(objects.map(({ key, size, uploaded }) => ({ name: key, size, uploaded })));
    }
    const name = nameIn(pathname);
    if (name === null) return new Response('There is nothing here\n', { status: 404 });
    if (request.method === 'PUT') return put(request, name, env.FILES);
    if (request.method === 'DELETE') {
      await env.FILES.delete(name);
      return new Response(null, { status: 204 });
    }
    const file = await env.FILES.get(name);
    if (file === null) return new Response('There is no such file\n', { status: 404 });
    return new Response(file.body, {
      headers: {
        // Browsers download the file. A file from a stranger must never run as a page of this app.
        'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
        'content-type': 'application/octet-stream',
        'content-length': String(file.size),
        'x-content-type-options': 'nosniff',
        etag: file.httpEtag,
      },
    });
  },
};

/** Stores the body as it arrives, unless a file has the name already. */
async function put(request, name, files) {
  const size = Number(request.headers.get('content-length') ?? Number.NaN);
  if (!(size <= LIMIT)) return new Response('A file may have 100 MB.\n', { status: 413 });
  const stored = await files.put(name, request.body ?? '', { onlyIf: { etagDoesNotMatch: '*' } });
  if (stored === null) return new Response(`There is a file ${name} already.\n`, { status: 409 });
  return new Response(null, { status: 201 });
}

/** Returns the file name in a path `/files/…`; null for other paths. */
function nameIn(pathname) {
  const [, encoded] = /^\/files\/([^/]{1,600})$/.exec(pathname) ?? [];
  try {
    const name = decodeURIComponent(encoded ?? '');
    return name === '' || name.length > 200 ? null : name;
  } catch {
    return null;
  }
}
