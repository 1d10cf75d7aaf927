// The outbound Worker of a platform: gets what the scripts of its customers fetch.

export default {
  async fetch(request, env) {
    const { url, method } = request;
    if (request.headers.get('upgrade') === 'websocket') {
      const { 0: client, 1: server } = new WebSocketPair();
      server.accept();
      server.send(`to ${url}`);
      return new Response(null, { status: 101, webSocket: client });
    }
    const headers = [...request.headers.keys()].filter((name) => name.startsWith('x-'));
    const { customer = null, tags = null, OWN } = env;
    return Response.json({ url, method, body: await request.text(), headers, customer, tags, OWN });
  },
};
