import { connect } from 'cloudflare:sockets';
import { readFileSync } from 'node:fs';

/** The query's `url` is fetched in the way that the path names. */
export default {
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    const url = searchParams.get('url');
    try {
      if (pathname === '/with')
        return await env.CERT.fetch(url, { method: request.method, body: request.body });
      if (pathname === '/without') return await fetch(url);
      if (pathname === '/socket') {
        const { webSocket } = await env.CERT.fetch(url, { headers: { upgrade: 'websocket' } });
        webSocket.accept();
        const heard = new Promise((resolve) => webSocket.addEventListener('message', resolve));
        return new Response((await heard).data);
      }
      if (pathname === '/connect') {
        const socket = (searchParams.has('with') ? env.CERT.connect : connect)(url);
        await socket.opened;
        return new Response('connected');
      }
      if (pathname === '/read') return new Response(readFileSync(url));
      return Response.json([typeof env.CERT, { ...env.CERT }, JSON.stringify(env.CERT)]);
    } catch (error) {
      return new Response(String(error), { status: 500 });
    }
  },
};
