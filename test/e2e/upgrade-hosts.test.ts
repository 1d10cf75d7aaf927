// An upgrade of several hosts, one after the other, behind a load balancer that checks whether each is ready.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, fetch, WebSocket } from 'undici';
import { LOCALHOST } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Balancer, type Behind } from '../support/hosts/balancer.ts';
import { Hosts, hostOf, type TestHost } from '../support/hosts/hosts.ts';
import { ownPort } from '../support/ports.ts';
import { eventually } from '../support/processes.ts';

/** How long the app's slow answer takes, in ms. */
const SLOW_MS = 5_000;
/** Makes a connection for each request. */
const ONCE = new Agent({
  pipelining: 0,
  connect: { lookup: (_name, _options, found) => found(null, [{ address: '127.0.0.1', family: 4 }]) },
});
after(() => ONCE.close());
/** Counts each number that it gets, and holds WebSockets. */
const APP = {
  'wrangler.toml': `name = "shop"
main = "index.js"
compatibility_date = "2026-10-01"
[[durable_objects.bindings]]
name = "SALES"
class_name = "Sales"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Sales"]
`,
  'index.js': `import { DurableObject } from 'cloudflare:workers';
export class Sales extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS sales (n INTEGER, at INTEGER)');
  }
  add(n) { this.ctx.storage.sql.exec('INSERT INTO sales (n) VALUES (?)', n); }
  all() { return this.ctx.storage.sql.exec('SELECT n FROM sales ORDER BY n').toArray().map(({ n }) => n); }
}
export default {
  async fetch(request, { SALES }) {
    if (request.headers.get('upgrade') === 'websocket') {
      const [client, server] = Object.values(new WebSocketPair());
      server.accept();
      return new Response(null, { status: 101, webSocket: client });
    }
    if (new URL(request.url).pathname === '/slow') {
      const { readable, writable } = new TransformStream();
      const writer = writable.getWriter();
      writer.write(new TextEncoder().encode('begun, '));
      setTimeout(() => writer.write(new TextEncoder().encode('ended')).then(() => writer.close()), ${SLOW_MS});
      return new Response(readable);
    }
    const sales = SALES.getByName('all');
    if (request.method === 'GET') return Response.json(await sales.all());
    await sales.add(Number(await request.text()));
    return new Response('sold');
  },
};`,
};
const CLIENTS = 8;
/** Requests before and after each step. */
const MORE = 50;
const PAUSE_MS = 20;
const DEADLINE_MS = 60_000;

interface ListedHost {
  id: string;
  address: string;
  state: string;
  apps: number;
}

test('each host is drained, stopped and started, and every request is answered once', async () => {
  // On a busy machine, a host needs longer than the default to end.
  await using hosts = await Hosts.start(2, { RUNNER_DRAIN_S: '60' });
  const [one] = hosts.all as [TestHost];
  await using stack = new AsyncDisposableStack();
  const { balancer, edgePort } = await balance(hosts.all, stack);
  await rpcOf(one)('apps.create', { slug: 'shop', storage: 'bucket' });
  await one.deployAgain('shop', 'hello', APP);

  const load = new Load(`http://shop.localhost:${edgePort}/`);
  stack.defer(() => load.stop());
  const closes: number[] = [];
  const sockets = (async () => {
    while (!load.isOver) {
      const socket = new WebSocket(`ws://shop.localhost:${edgePort}/`, { dispatcher: LOCALHOST });
      const closed = once(socket, 'close');
      await Promise.race([closed, load.ended]);
      if (!load.isOver) closes.push((await closed)[0].code);
      socket.close();
    }
  })();
  for (const host of hosts.all) {
    const other = hosts.all.find((each) => each !== host)!;
    const rpc = rpcOf(other);
    const listed = async (): Promise<ListedHost> =>
      (await rpc('hosts.list', {})).items.find(({ address }: ListedHost) => address === host.address);
    const { id } = await listed();
    await rpc('hosts.drain', { host: id });
    await eventually(async () => (await listed()).apps === 0, 'its apps have moved', DEADLINE_MS);
    await load.goesOn();
    assert.equal((await host.stop()).code, 0);
    await load.goesOn();
    await host.start();
    await eventually(() => balancer.ready.includes(host.address), 'it is ready', DEADLINE_MS);
    await rpc('hosts.drain', { host: id, drain: false });
    await load.goesOn();
  }
  const { sold, failures } = await load.end();
  await sockets;
  assert.deepEqual(failures, []);
  assert.ok(sold.length > 100, `${sold.length} requests were made`);
  const response = await fetch(`http://shop.localhost:${edgePort}/`, { dispatcher: LOCALHOST });
  assert.deepEqual(await response.json(), sold);
  assert.ok(closes.length > 0 && closes.every((code) => code === 1012), `closed with ${closes}`);
});

test('a host that stops serves until load balancers have noticed and other hosts have its answers', async () => {
  await using hosts = await Hosts.start(2, { RUNNER_DRAIN_S: '60' });
  const [one] = hosts.all as [TestHost];
  const rpc = rpcOf(one);
  await rpc('apps.create', { slug: 'shop' });
  await one.deployAgain('shop', 'hello', APP);
  // Its data stays on the disk of its home, also while that drains.
  const { items } = await rpc('hosts.list', {});
  const { id, address } = items.find(({ apps }: ListedHost) => apps > 0);
  await rpc('hosts.drain', { host: id });
  const home = hosts.all.find((host) => host.address === address)!;
  const other = hosts.all.find((host) => host !== home)!;
  // From its first report on, the new process knows that the home is draining.
  await other.stop();
  await other.start();
  await using stack = new AsyncDisposableStack();
  const { edgePort } = await balance(hosts.all, stack);
  const load = new Load(`http://shop.localhost:${edgePort}/`);
  stack.defer(() => load.stop());
  await load.goesOn();
  assert.equal((await other.stop()).code, 0);
  await load.goesOn();
  const { sold, failures } = await load.end();
  assert.deepEqual(failures, []);
  assert.ok(sold.length > MORE / 2, `${sold.length} requests were made`);

  await other.start();
  const slow = await fetch(`http://shop.localhost:${other.edgePort}/slow`, { dispatcher: LOCALHOST });
  await home.stop();
  assert.equal(await slow.text(), 'begun, ended');
});

test('a host that stops as soon as another has joined serves until load balancers have noticed', async () => {
  await using hosts = await Hosts.start(1, { RUNNER_DRAIN_S: '60' });
  const [one] = hosts.all as [TestHost];
  await using two = hostOf(hosts.store, 2);
  await using stack = new AsyncDisposableStack();
  const { balancer, edgePort, add } = await balance(hosts.all, stack);
  await two.start();
  add(two);
  await eventually(() => balancer.ready.includes(two.address), 'the new host is ready');
  let hasStopped = false;
  const stopped = one.stop().finally(() => {
    hasStopped = true;
  });
  const failures: string[] = [];
  while (!hasStopped || balancer.ready.includes(one.address))
    await fetch(`http://api.localhost:${edgePort}/health`, { dispatcher: ONCE }).then(
      (response) => response.arrayBuffer(),
      (error: Error) => failures.push(`${error.message}: ${error.cause}`),
    );
  assert.deepEqual(failures, []);
  assert.equal((await stopped).code, 0);
});

/**
 * Starts a load balancer that ends with `stack`. Resolves when all hosts are ready, and know how often it asks them.
 * @returns also `add`, which gives it another host
 */
async function balance(
  hosts: readonly TestHost[],
  stack: AsyncDisposableStack,
): Promise<{ balancer: Balancer; edgePort: number; add: (host: TestHost) => void }> {
  const behind = new Map<string, Behind>();
  const add = ({ address, api, edgePort }: TestHost) =>
    void behind.set(address, { apiPort: Number(new URL(api).port), edgePort });
  for (const host of hosts) add(host);
  const balancer = new Balancer(behind);
  stack.defer(() => balancer.close());
  const edgePort = ownPort();
  await balancer.listen(ownPort(), edgePort);
  await eventually(() => balancer.ready.length === hosts.length, 'all are ready');
  await eventually(() => balancer.checks >= 3 * hosts.length, 'all were asked several times');
  return { balancer, edgePort, add };
}

/** Clients that make requests until they are stopped, half of them over connections that they keep. */
class Load {
  readonly ended: Promise<void>;
  isOver = false;
  readonly #url: string;
  readonly #clients: Promise<void>[];
  readonly #end = Promise.withResolvers<void>();
  readonly #failures: string[] = [];
  readonly #sold: number[] = [];
  #next = 0;

  constructor(url: string) {
    this.#url = url;
    this.ended = this.#end.promise;
    this.#clients = Array.from({ length: CLIENTS }, (_, n) =>
      this.#ask(n % 2 === 0, n % 4 < 2 ? LOCALHOST : ONCE),
    );
  }

  /** Resolves after some more answers. */
  async goesOn(): Promise<void> {
    const enough = this.#next + MORE;
    await eventually(() => this.#next >= enough, 'the clients go on', DEADLINE_MS);
  }

  /** Lets each client end after its request. */
  stop(): void {
    this.isOver = true;
    this.#end.resolve();
  }

  /** Returns the numbers that were posted, and what was answered without success. */
  async end(): Promise<{ sold: number[]; failures: string[] }> {
    this.stop();
    await Promise.all(this.#clients);
    return { sold: this.#sold, failures: this.#failures };
  }

  async #ask(posts: boolean, dispatcher: Agent): Promise<void> {
    while (!this.isOver) {
      const n = this.#next++;
      const init = posts ? { method: 'POST', body: String(n) } : {};
      if (posts) this.#sold.push(n);
      const asked = { ...init, dispatcher, signal: AbortSignal.timeout(DEADLINE_MS) };
      const from = performance.now();
      const failure = await fetch(this.#url, asked).then(
        async (response) => {
          const text = await response.text();
          return response.ok ? null : `${response.status} ${text}`;
        },
        (error: Error) => `${error.message}: ${error.cause}`,
      );
      if (failure !== null)
        this.#failures.push(
          `${posts ? 'POST' : 'GET'} after ${Math.round(performance.now() - from)} ms: ${failure}`,
        );
      await sleep(PAUSE_MS);
    }
  }
}
