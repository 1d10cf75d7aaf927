// An app whose Durable Objects other apps use.
import { DurableObject, RpcTarget, WorkerEntrypoint } from 'cloudflare:workers';

class Basket extends RpcTarget {
  #things = [];
  put(thing) {
    return this.#things.push(thing);
  }
}

export class Room extends DurableObject {
  get motto() {
    return { words: ['be', 'kind'] };
  }
  #secret() {
    return 'secret';
  }
  own = 'a field of the instance';
  ownName() {
    return this.ctx.id.name ?? null;
  }
  async add(n) {
    const total = ((await this.ctx.storage.get('total')) ?? 0) + n;
    await this.ctx.storage.put('total', total);
    return total;
  }
  echo(...values) {
    return values;
  }
  basket() {
    return new Basket();
  }
  async each(values, tell) {
    for (const value of values) await tell(value);
  }
  async drain(stream) {
    return (await new Response(stream).text()).length;
  }
  words() {
    return new Response('a stream of words').body;
  }
  double() {
    return (n) => 2 * n;
  }
  fail() {
    throw new RangeError(`out of ${this.#secret().length}`);
  }
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/fail') throw new TypeError('no such page');
    if (pathname === '/strange')
      return new Response('fine', {
        headers: { 'x-cellar-thrown': '{"name":"constructor","message":"no"}' },
      });
    if (pathname === '/upload') return new Response(String((await request.arrayBuffer()).byteLength));
    if (pathname === '/stream')
      return new Response(
        new ReadableStream({
          start(controller) {
            for (const word of ['one ', 'two ', 'three']) controller.enqueue(new TextEncoder().encode(word));
            controller.close();
          },
        }),
        { status: 202, headers: { 'x-room': 'yes' } },
      );
    if (pathname === '/socket') {
      const { 0: client, 1: server } = new WebSocketPair();
      this.ctx.acceptWebSocket(server);
      return new Response(null, { status: 101, webSocket: client });
    }
    // A Cellar adds the id of the request.
    const own = [...request.headers.keys()].filter((name) => /^x-(?!request-id)/.test(name));
    return Response.json({ url: request.url, method: request.method, own });
  }
  webSocketMessage(socket, message) {
    socket.send(`${this.ctx.getWebSockets().length}: ${message}`);
  }
}

export class Admin extends WorkerEntrypoint {
  secret() {
    return 'only for services';
  }
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const id = url.searchParams.get('id');
    if (id === null) return new Response(env.ROOM.idFromName(url.searchParams.get('name') ?? '').toString());
    return new Response(String(await env.ROOM.get(env.ROOM.idFromString(id)).add(0)));
  },
};
