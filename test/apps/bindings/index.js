// `/version` returns the version of the deploy, `/limit/BINDING?key` whether the key is within a rate limit.
export default {
  async fetch(request, env) {
    const { pathname, search } = new URL(request.url);
    if (pathname === '/version') return Response.json(env.VERSION);
    const [, limit] = /^\/limit\/(\w+)$/.exec(pathname) ?? [];
    if (limit) return Response.json(await env[limit].limit({ key: search.slice(1) }));
    return new Response('not found', { status: 404 });
  },
};
