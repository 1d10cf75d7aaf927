import { DurableObject } from 'cloudflare:workers';

/** A chat room: stores its messages, and sends each to all connected clients. */
export class Room extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, text TEXT NOT NULL)');
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair('ping', 'pong'));
  }

  fetch(request) {
    if (new URL(request.url).pathname === '/messages') return Response.json(this.#messages());
    if (request.headers.get('upgrade') !== 'websocket')
      return new Response('A WebSocket is expected\n', { status: 426 });
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server);
    for (const message of this.#messages()) server.send(JSON.stringify(message));
    return new Response(null, { status: 101, webSocket: client });
  }

  webSocketMessage(_socket, text) {
    const message = this.ctx.storage.sql
      .exec('INSERT INTO messages (text) VALUES (?) RETURNING id, text', String(text))
      .one();
    for (const socket of this.ctx.getWebSockets()) socket.send(JSON.stringify(message));
  }

  webSocketClose(socket, code) {
    socket.close(code === 1005 ? 1000 : code);
  }

  #messages() {
    return this.ctx.storage.sql
      .exec('SELECT id, text FROM messages ORDER BY id DESC LIMIT 50')
      .toArray()
      .reverse();
  }
}
