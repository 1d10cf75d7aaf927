import { DurableObject } from 'cloudflare:workers';

const KEPT_MESSAGES = 50;

/** One room: it keeps its last messages, and sends each new one to everybody in it. */
export class Room extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, text TEXT NOT NULL)');
  }

  /** Accepts the WebSocket of a visitor, and sends the last messages. */
  fetch(request) {
    if (request.headers.get('upgrade') !== 'websocket')
      return new Response('This is for WebSockets\n', { status: 426 });
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server);
    const last = this.ctx.storage.sql.exec('SELECT text FROM messages ORDER BY id').toArray();
    for (const { text } of last) server.send(text);
    return new Response(null, { status: 101, webSocket: client });
  }

  webSocketMessage(_socket, message) {
    const text = String(message).slice(0, 1000);
    const { sql } = this.ctx.storage;
    sql.exec('INSERT INTO messages (text) VALUES (?)', text);
    sql.exec('DELETE FROM messages WHERE id <= (SELECT max(id) FROM messages) - ?', KEPT_MESSAGES);
    for (const socket of this.ctx.getWebSockets()) socket.send(text);
  }
}
