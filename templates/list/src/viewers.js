import { DurableObject } from 'cloudflare:workers';

/** Holds the WebSockets of the open pages. It hibernates until the list changes. */
export class Viewers extends DurableObject {
  fetch(request) {
    if (request.headers.get('upgrade') !== 'websocket')
      return new Response('This is for WebSockets\n', { status: 426 });
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Tells every open page to read the list again. */
  changed() {
    for (const socket of this.ctx.getWebSockets()) socket.send('changed');
  }
}
