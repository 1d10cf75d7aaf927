interface Env {
  ASSETS: Fetcher;
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/api/time') return Response.json({ now: new Date().toISOString() });
    if (pathname === '/api/icon') return env.ASSETS.fetch(new URL('/icon.svg', request.url));
    return Response.json({ error: 'no such route' }, { status: 404 });
  },
} satisfies ExportedHandler<Env>;
