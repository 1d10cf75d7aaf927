// `/version` answers which deploy this is.
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/version') return Response.json(env.VERSION);
    return new Response('not found', { status: 404 });
  },
};
