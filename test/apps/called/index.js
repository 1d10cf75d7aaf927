// An app that others call: by requests and methods of its default export and of `Admin`, and by a WebSocket.
import { RpcTarget, WorkerEntrypoint } from 'cloudflare:workers';

class Basket extends RpcTarget {
  #things = [];
  put(thing) {
    return this.#things.push(thing);
  }
}

function described(request) {
  const headers = Object.fromEntries(request.headers);
  return { url: request.url, method: request.method, headers, cf: request.cf };
}

export default class extends WorkerEntrypoint {
  async fetch(request) {
    if (request.headers.get('upgrade') === 'websocket') {
      const { 0: client, 1: server } = new WebSocketPair();
      server.accept();
      server.addEventListener('message', ({ data }) => server.send(`echo ${data}`));
      return new Response(null, { status: 101, webSocket: client });
    }
    const { pathname } = new URL(request.url);
    if (pathname === '/slow') await scheduler.wait(1_000);
    if (pathname === '/strange') return new Response('fine', { headers: { 'x-cellar-thrown': '{}' } });
    if (pathname === '/upload') return new Response(String((await request.arrayBuffer()).byteLength));
    return Response.json(described(request));
  }
  add(...numbers) {
    console.log(`adds ${numbers.length} numbers`);
    return numbers.reduce((sum, number) => sum + number);
  }
  basket() {
    return new Basket();
  }
  async each(values, tell) {
    for (const value of values) await tell(value);
  }
  page(text) {
    return new Response(text, { status: 201 });
  }
  async slowly(value) {
    await scheduler.wait(1_000);
    return value;
  }
  fail() {
    throw new RangeError('out of range');
  }
}

export class Admin extends WorkerEntrypoint {
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/fail') throw new TypeError('no such page');
    if (pathname === '/strange') return new Response('fine', { headers: { 'x-cellar-thrown': '{}' } });
    return Response.json({ ...described(request), props: this.ctx.props });
  }
  who() {
    return this.ctx.props;
  }
}

export const plain = { fetch: () => new Response('plain') };
