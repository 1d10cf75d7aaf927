// Apps that call apps of another host: by service bindings, and by Durable Objects of another app.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';
import { eventually } from '../support/processes.ts';

const DEADLINE_MS = 30_000;
/** The second calls the first, and the fourth the third. */
const APPS = ['rooms', 'visitor', 'called', 'caller'];
const CALLED = new Set(['rooms', 'called']);

let hosts: Hosts;
/** Ids of the apps by slug. */
const ids: Record<string, string> = {};
/** Id of the host of the called apps, and of the host of the calling apps. */
let [one, two]: string[] = [];

const rpc = (name: string, body: object) => rpcOf(hosts.all[0]!)(name, body);
/** Moves an app, and retries while it may not move yet. */
const moveTo = async (slug: string, host: string) => {
  await eventually(
    async () => (await rpc('apps.move', { id: ids[slug], host })).code === undefined,
    `${slug} moves`,
    DEADLINE_MS,
  );
  assert.equal(await homeOf(slug), host);
};
const homeOf = async (slug: string) => (await rpc('apps.get', { id: ids[slug] })).home.id;
const ask = async (slug: string, path: string, host: TestHost = hosts.all[0]!) => {
  const { status, text } = await host.get(slug, path);
  assert.equal(status, 200, text);
  return JSON.parse(text);
};

before(async () => {
  hosts = await Hosts.start(2, { RUNNER_STORAGE: 'bucket' });
  const { items } = await rpc('hosts.list', {});
  [one, two] = items.map(({ id }: { id: string }) => id);
  for (const slug of APPS) {
    ids[slug] = await hosts.all[0]!.deploy(slug, slug);
    const home = CALLED.has(slug) ? one! : two!;
    if ((await homeOf(slug)) !== home) await moveTo(slug, home);
  }
});
after(() => hosts[Symbol.asyncDispose]());

test("an app uses another host's objects by fetch, by methods, by streams and by stubs", async () => {
  for (const host of hosts.all) {
    const visit = (way: string) => ask('visitor', `/${way}`, host);
    assert.deepEqual(await visit('add'), [20, 0]);
    const [seen, ...others] = await visit('fetch');
    assert.deepEqual([seen.url, seen.method, seen.own], ['https://room/a?b=c', 'PUT', ['x-own']]);
    assert.deepEqual(others, [202, 'yes', 'one two three', '3000000']);
    assert.deepEqual(await visit('stubs'), [2, 1, [1, 2, 3], 42]);
    assert.deepEqual(await visit('streams'), [100_000, 'a stream of words']);
    assert.deepEqual(await visit('errors'), ['RangeError: out of 6', 'TypeError: no such page']);
  }
});

test('an app calls an app of another host by service bindings', async () => {
  for (const host of hosts.all) {
    assert.equal(await ask('caller', '/OTHER/add?[1,2]', host), 3);
    assert.equal(await ask('caller', '/OTHER/basket', host), 2);
    assert.equal((await ask('caller', '/OTHER/fetch/a?b=c', host)).url.split('/').pop(), 'a?b=c');
  }
});

test('calls go on while the called apps move, and none is lost or made twice', async () => {
  const socket = hosts.all[0]!.webSocket('visitor', '/socket');
  const deadline = { signal: AbortSignal.timeout(2 * DEADLINE_MS) };
  await once(socket, 'open', deadline);
  const said = once(socket, 'message', deadline);
  socket.send('hello');
  assert.equal((await said)[0].data, '1: hello');
  const closed = once(socket, 'close', deadline);

  let isOver = false;
  const answered = { visitor: 0, caller: 0 };
  const goOn = async (slug: keyof typeof answered, path: string, expected: unknown) => {
    for (; !isOver; answered[slug]++) assert.deepEqual(await ask(slug, path), expected);
  };
  const move = async () => {
    for (const home of [two!, one!]) {
      await Promise.all([...CALLED].map((slug) => moveTo(slug, home)));
      const { visitor, caller } = answered;
      const isUsed = () => answered.visitor > visitor + 1 && answered.caller > caller + 1;
      await eventually(isUsed, 'both apps are called at the new home', DEADLINE_MS);
    }
  };
  const moves = move().finally(() => {
    isOver = true;
  });
  await Promise.all([goOn('visitor', '/add', [20, 0]), goOn('caller', '/OTHER/add?[1,2]', 3), moves]);
  assert.equal((await closed)[0].code, 1012);
});
