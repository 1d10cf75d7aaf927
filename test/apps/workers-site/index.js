import manifest from '__STATIC_CONTENT_MANIFEST';
import { getAssetFromKV, NotFoundError } from '@cloudflare/kv-asset-handler';

const ASSET_MANIFEST = JSON.parse(manifest);

/** Runs a call, and returns its result, or its error's message. */
async function attempt(run) {
  try {
    return (await run()) ?? null;
  } catch (error) {
    return error.message;
  }
}

export default {
  async fetch(request, env, context) {
    const { pathname } = new URL(request.url);
    const namespace = env.__STATIC_CONTENT;
    if (pathname === '/api/paths') return Response.json(Object.keys(ASSET_MANIFEST).sort());
    if (pathname === '/api/list') {
      const { keys } = await namespace.list();
      return Response.json(keys.map(({ name }) => name).sort());
    }
    if (pathname === '/api/pages') {
      const names = [];
      for (let cursor; ; ) {
        const page = await namespace.list({ limit: 2, cursor });
        names.push(...page.keys.map(({ name }) => name));
        if (page.list_complete) return Response.json(names);
        cursor = page.cursor;
      }
    }
    if (pathname === '/api/strange')
      return Response.json([
        await attempt(() => namespace.get('nothing')),
        await attempt(() => namespace.get('../../release.json')),
        await attempt(() => namespace.get('private/notes.txt')),
        await attempt(() => namespace.get('index.html')),
        await attempt(() => namespace.put('index.html', 'changed')),
        await attempt(() => namespace.delete(ASSET_MANIFEST['index.html'])),
      ]);
    if (pathname === '/api/bulk') {
      const key = ASSET_MANIFEST['data.json'];
      const values = await namespace.get([key, 'nothing'], 'json');
      const { value, metadata } = await namespace.getWithMetadata(key, 'json');
      return Response.json([values.get(key), values.get('nothing'), value, metadata]);
    }
    try {
      const event = { request, waitUntil: (promise) => context.waitUntil(promise) };
      return await getAssetFromKV(event, { ASSET_NAMESPACE: namespace, ASSET_MANIFEST });
    } catch (error) {
      if (error instanceof NotFoundError) return new Response('not here', { status: 404 });
      throw error;
    }
  },
};
