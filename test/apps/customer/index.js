// A customer's Worker in a dispatch namespace.

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/count') {
      const count = Number((await env.KV.get('count')) ?? 0) + 1;
      await env.KV.put('count', String(count));
      return Response.json({ count });
    }
    if (pathname === '/socket') {
      const { 0: client, 1: server } = new WebSocketPair();
      server.accept();
      server.send(env.NAME);
      return new Response(null, { status: 101, webSocket: client });
    }
    if (pathname === '/missing') return new Response(null, { headers: { 'x-cellar-no-script': '1' } });
    if (pathname === '/throws') throw new Error('the customer failed');
    const headers = [...request.headers.keys()].filter((name) => name.startsWith('x-cellar'));
    return Response.json({
      ...{ name: env.NAME, secret: env.SECRET ?? null, method: request.method, path: pathname },
      ...{ body: await request.text(), headers },
    });
  },
};
