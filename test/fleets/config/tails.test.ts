// Tail Workers, in two real processes with the host between them: they get the same events as in Miniflare.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { Agent, WebSocket } from 'undici';
import type { Release } from '../../../bundler/release.ts';
import { CellFilesCache } from '../../../runtime/fleets/process/cell-files.ts';
import { lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { accessTo } from '../../support/fleets/called-app.ts';
import { call, cellOptions, makeRelease } from '../../support/fleets/release.ts';
import { newMiniflare } from '../../support/miniflare.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const TAILED = readFileSync('test/apps/tailed/index.js', 'utf8');
const TAIL = readFileSync('test/apps/tail/index.js', 'utf8');

// biome-ignore lint/suspicious/noExplicitAny: events have many shapes.
type Item = Record<string, any>;

const FIELDS: Partial<Release> = {
  exports: ['default', 'Room', 'Admin'],
  classes: [{ className: 'Room', storageId: 'room', sql: true }],
  durableObjects: [{ binding: 'ROOM', className: 'Room' }],
  services: [{ binding: 'ADMIN', service: null, entrypoint: 'Admin' }],
  triggers: {
    crons: [],
    producers: [{ binding: 'JOBS', queue: 'jobs' }],
    consumers: [{ queue: 'jobs', maxBatchTimeout: 0 }],
  },
};

interface Tailed {
  code?: string;
  fields?: Partial<Release>;
  /** Code of the tail Worker. */
  tail?: string;
  /** Owner of the app with the tail Worker. */
  owner?: string;
}

/** Starts the app `tail`, and an app whose events go to it. */
async function tailed(
  t: TestContext,
  { code = TAILED, fields = FIELDS, tail = TAIL, owner = 'o' }: Tailed = {},
) {
  const root = temporaryDirectory(t);
  const lines: string[] = [];
  const start = async (app: string, release: string, serviceSocket?: string) => {
    const options = await cellOptions(`${root}/${app}`, release);
    const files = await new CellFilesCache(`${root}/${app}/run`, 512, {
      ...(serviceSocket && { serviceSocket }),
    }).of(release);
    const { config, sockets } = files;
    const output = lineSink((line) => lines.push(line));
    const cell = await startCell({ ...options, config, sockets, output, callSockets: { exports: 'health' } });
    t.after(() => cell.stop());
    return { cell, files };
  };
  const consumer = await makeRelease(`${root}/tail/${'e'.repeat(16)}`, tail);
  const { cell: target } = await start('tail', consumer.directory);
  const access = accessTo(t, { cell: target, slug: 'tail', owner }, 'tailed', `${root}/host`);
  const release = await makeRelease(`${root}/tailed/${'f'.repeat(16)}`, code, {
    ...fields,
    tailConsumers: ['tail'],
  });
  const { cell, files } = await start('tailed', release.directory, access.socket);
  await access.open(files.calls);
  const ask = (path: string, options = {}) => call(cell.socketPath('http'), path, options);
  const got = async (): Promise<{ events: Item[]; batches: number }> =>
    JSON.parse((await call(target.socketPath('http'), '/')).text);
  return { ask, got, cell, target, access, lines, files };
}

async function miniflare(t: TestContext) {
  const worker = (name: string, script: string) => ({
    name,
    modules: [{ type: 'ESModule' as const, path: 'app.js', contents: script }],
    compatibilityDate: '2026-10-01',
  });
  const instance = newMiniflare({
    workers: [
      {
        ...worker('tailed', TAILED),
        tails: ['tail'],
        durableObjects: { ROOM: { className: 'Room', useSQLite: true } },
        serviceBindings: { ADMIN: { name: 'tailed', entrypoint: 'Admin' } },
        queueProducers: { JOBS: 'jobs' },
        queueConsumers: { jobs: { maxBatchTimeout: 0 } },
      },
      worker('tail', TAIL),
    ],
  });
  t.after(() => instance.dispose());
  const url = await instance.ready;
  const consumer = await instance.getWorker('tail');
  return {
    ask: async (path: string, options: { headers?: Record<string, string> } = {}) => {
      const answer = await fetch(new URL(path, url), options);
      return { status: answer.status, text: await answer.text() };
    },
    got: async () => (await (await consumer.fetch('http://tail/')).json()) as { events: Item[] },
  };
}

async function until<T>(
  look: () => Promise<T | undefined | false> | T | undefined | false,
  what: string,
): Promise<T> {
  for (const deadline = Date.now() + 30_000; Date.now() < deadline; await wait(20)) {
    const found = await look();
    if (found) return found;
  }
  assert.fail(`not in time: ${what}`);
}

/** The paths of the tailed app, and how many events each makes. */
const WAYS: Record<string, number> = {
  ...{ log: 1, throws: 1, rejects: 1, text: 1, later: 1, channel: 1, room: 2, roomFails: 2 },
  ...{ alarm: 3, sum: 2, admin: 2, queue: 2, nothing: 1 },
};
const SECRET = 'abcdefabcdefabcdefabcdef0123456789';
const HEADERS = { authorization: `Bearer ${SECRET}`, cookie: 'a=b', 'x-own': 'kept' };

/** The headers of a request that the tests set. */
const own = (headers: Record<string, string>) =>
  Object.fromEntries(Object.keys(HEADERS).map((name) => [name, headers[name]]));

/** Removes what differs between two runs: times, addresses, paths, and headers of the client. */
function comparable(item: Item): Item {
  const text = JSON.stringify(item, (key, value) => {
    if (/^(timestamp|eventTimestamp|wallTime|cpuTime|scriptName|scriptVersion|cf|durableObjectId)$/.test(key))
      return undefined;
    if (key === 'scheduledTime') return typeof value;
    if (key === 'headers') return own(value);
    if (key === 'whole') return [value[0], own(value[1])];
    return value;
  });
  return JSON.parse(
    text
      .replace(/http:\/\/(127\.0\.0\.1|localhost)(:\d+)?/g, 'http://host')
      .replaceAll(/file:[^ :)]*\/app\.js/g, 'app.js'),
  );
}

const sorted = (items: Item[]) => items.map((item) => JSON.stringify(comparable(item))).sort();

test('a tail Worker gets of each kind of event what it gets in Miniflare', async (t) => {
  const here = await tailed(t);
  const there = await miniflare(t);
  let [seenHere, seenThere] = [0, 0];
  for (const [way, count] of Object.entries(WAYS)) {
    const path = `/${way}?token=${SECRET}`;
    const [answer, expected] = [
      await here.ask(path, { headers: HEADERS }),
      await there.ask(path, { headers: HEADERS }),
    ];
    assert.equal(answer.status, expected.status, way);
    const next = async (of: { got: () => Promise<{ events: Item[] }> }, seen: number) =>
      until(async () => {
        const { events } = await of.got();
        return events.length >= seen + count && events.slice(seen);
      }, `the events of ${way}`);
    const [mine, theirs] = [await next(here, seenHere), await next(there, seenThere)];
    assert.deepEqual(sorted(mine), sorted(theirs), way);
    seenHere += mine.length;
    seenThere += theirs.length;
    for (const { scriptName, scriptVersion, wallTime } of mine) {
      assert.deepEqual([scriptName, typeof wallTime], ['tailed', 'number']);
      assert.match(scriptVersion.id, /^[0-9a-f]{8}-/);
    }
  }
});

const SAY = `export default { fetch(request) {
  console.log('asked for', new URL(request.url).pathname);
  return new Response('ok');
} };`;
/** Returns the code of a tail Worker that answers with the paths of the events that its `tail()` got. */
const kept = (main: string, before = '') => `${before}
import { WorkerEntrypoint } from 'cloudflare:workers';
const paths = [];
const keep = (items) => paths.push(...items.map(({ event }) => new URL(event.request.url).pathname));
const answer = () => Response.json({ events: paths, batches: 0 });
export default ${main};`;

test('a class may be a tail Worker, and events of one moment arrive together', async (t) => {
  const main = 'class extends WorkerEntrypoint { tail(items) { keep(items); } fetch() { return answer(); } }';
  const { ask, got } = await tailed(t, { code: SAY, fields: {}, tail: kept(main) });
  const paths = Array.from({ length: 20 }, (_, n) => `/${n}`);
  await Promise.all(paths.map((path) => ask(path)));
  await until(async () => (await got()).events.length === 20, 'all events');
  assert.deepEqual((await got()).events.toSorted(), paths.toSorted());
  const { ask: askAgain, got: gotAgain } = await tailed(t, { code: SAY, fields: {} });
  await Promise.all(paths.map((path) => askAgain(path)));
  const { batches } = await until(async () => {
    const found = await gotAgain();
    return found.events.length === 20 && found;
  }, 'all events');
  assert.ok(batches <= 3, `${batches} batches`);
});

test('events that still wait are sent before the process ends', async (t) => {
  const { ask, got, cell } = await tailed(t, {
    code: SAY,
    fields: {},
    tail: kept('{ tail: keep, fetch: answer }'),
  });
  await Promise.all(['/1', '/2', '/3'].map((path) => ask(path)));
  await cell.stop();
  assert.deepEqual((await got()).events.toSorted(), ['/1', '/2', '/3']);
});

test('a tail Worker that never ends holds up the end of the process for two seconds', async (t) => {
  const main = '{ async tail() { for (;;) await scheduler.wait(1_000); }, fetch: answer }';
  const { ask, cell } = await tailed(t, { code: SAY, fields: {}, tail: kept(main) });
  await ask('/');
  const from = performance.now();
  await cell.stop();
  const took = performance.now() - from;
  assert.ok(took > 1_900 && took < 30_000, `${took} ms`);
});

/** Returns the warning in the log of the app with the tail. */
const warning = (lines: string[]) =>
  until(() => lines.find((line) => line.includes('tail_consumers: ')), 'the log has a warning');

test('an app without tail(), and one of another owner, get nothing, and the log says why', async (t) => {
  const without = await tailed(t, { code: SAY, fields: {}, tail: SAY });
  assert.equal((await without.ask('/')).status, 200);
  assert.match(
    await warning(without.lines),
    /1 events did not reach the app tail: Its Worker has no tail\(\) handler/,
  );
  const foreign = await tailed(t, { code: SAY, fields: {}, owner: 'another' });
  assert.equal((await foreign.ask('/')).status, 200);
  assert.match(await warning(foreign.lines), /There is no app tail of the same owner/);
  assert.deepEqual((await foreign.got()).events, []);
});

test('a tail Worker that never ends delays no request, and events beyond the limit are dropped', async (t) => {
  const main = '{ async tail(items) { keep(items); for (;;) await scheduler.wait(1_000); }, fetch: answer }';
  const { ask, got, lines } = await tailed(t, { code: SAY, fields: {}, tail: kept(main) });
  await ask('/first');
  await until(async () => (await got()).events.length === 1, 'the first event');
  for (let n = 0; n < 11; n++)
    for (const { status } of await Promise.all(Array.from({ length: 100 }, () => ask('/more'))))
      assert.equal(status, 200);
  assert.match(await warning(lines), /\d+ events did not reach the app tail: too many events wait for it/);
  assert.equal((await got()).events.length, 1);
});

test('a hostile answer of a tail Worker is read in part only', async (t) => {
  const before = `
const { Response: Real } = globalThis;
const chunk = new TextEncoder().encode('x'.repeat(65536));
globalThis.Response = class extends Real {
  constructor(body, init) {
    if (init?.status !== 204) { super(body, init); return; }
    super(new ReadableStream({ pull: (controller) => controller.enqueue(chunk) }), { status: 500 });
  }
};`;
  const main = '{ tail: keep, fetch: answer }';
  const { ask, lines } = await tailed(t, { code: SAY, fields: {}, tail: kept(main, before) });
  await ask('/');
  assert.match(await warning(lines), /did not reach the app tail: it answered 500"/);
});

test('an app cannot send events by a binding that it does not have, or as another app', async (t) => {
  const { access, got } = await tailed(t);
  const send = async (calling: string, headers = {}) => {
    const options = {
      method: 'POST',
      body: '[{"event":null,"logs":[]}]',
      headers: { 'x-cellar-calling': calling, ...headers },
    };
    const { status, text } = await call(access.socket, '/', options);
    return [status, text && JSON.parse(text).code];
  };
  for (const calling of ['tail 1', 'tail -1', 'tail', 'tail __proto__', 'tails 0', 'rpc 0', 'fetch 0'])
    assert.deepEqual(await send(calling), [403, 'binding_not_found'], calling);
  const forged = { 'x-cellar-call': '{"kind":"tail","from":"another"}' };
  assert.deepEqual(await send('tail 0', forged), [204, '']);
  assert.deepEqual(
    (await got()).events.map(({ scriptName }) => scriptName),
    ['tailed'],
  );
});

test('texts that look like those of Cellar change only the events of their own app', async (t) => {
  const code = `export default { fetch() {
    for (const text of ['', '{', '{"a":1}', '{"error":{}}', '{"run":{"trigger":"manual","cron":"x"}}', 'null', '[]'])
      for (const end of ['\\u001e', '\\u001f', '']) console.log('\\u001ecellar ' + text + end + 'text', 1);
    return new Response('ok');
  } };`;
  const { ask, got, lines } = await tailed(t, { code, fields: {} });
  await ask('/');
  const [item] = await until(async () => {
    const { events } = await got();
    return events.length > 0 && events;
  }, 'the event');
  assert.equal(new URL(item!.event.request.url).pathname, '/');
  assert.deepEqual(
    lines.filter((line) => line.includes('tail_consumers')),
    [],
  );
});

test("calls of the host are no events, and a cron that it runs is the cron's event", async (t) => {
  const { ask, got, cell } = await tailed(t);
  const health = (options = {}) => call(cell.socketPath('health'), '/', options);
  assert.equal((await health()).text, '0');
  const run = await health({ method: 'POST', body: '{"kind":"cron","cron":"0 0 1 1 *"}' });
  assert.equal(JSON.parse(run.text).done.outcome, 'failed');
  await ask('/last');
  const events = await until(async () => {
    const { events } = await got();
    return events.some(({ event }) => event.request?.url.endsWith('/last')) && events;
  }, 'the last event');
  assert.deepEqual(
    events.map(({ entrypoint, outcome, event }) => [entrypoint, outcome, event.cron]),
    [
      [undefined, 'exception', '0 0 1 1 *'],
      [undefined, 'ok', undefined],
    ],
  );
  assert.deepEqual(
    events[0]!.exceptions.map(({ message, stack }: Item) => [message, /^ +at .*app\.js/.test(stack)]),
    [['the cron failed', true]],
  );
});

test('events of a loaded Worker are not events of the app', async (t) => {
  const code = `export default { async fetch(request, env) {
    const modules = { 'a.js': 'export default { fetch() { console.log("loaded"); return new Response("ok"); } }' };
    const worker = env.LOADER.load({ compatibilityDate: '2026-10-01', mainModule: 'a.js', modules });
    return worker.getEntrypoint().fetch(request);
  } };`;
  const { ask, got } = await tailed(t, { code, fields: { workerLoaders: [{ binding: 'LOADER' }] } });
  await ask('/one');
  await ask('/two');
  const events = await until(async () => {
    const { events } = await got();
    return events.some(({ event }) => event.request.url.endsWith('/two')) && events;
  }, 'the events');
  assert.deepEqual([events.length, events.flatMap(({ logs }) => logs)], [2, []]);
});

test('an app without tail Workers has no service for them', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, SAY);
  const { config } = await cellOptions(root, directory);
  assert.doesNotMatch(readFileSync(config, 'utf8'), /tail/);
});

test('a message of a diagnostics channel that has no JSON loses no event', async (t) => {
  const code = `import { channel } from 'node:diagnostics_channel';
  const round = {};
  round.round = round;
  export default { fetch() {
    console.log('kept');
    for (const message of [1n, { order: 1 }, round, new Date(0)]) channel('orders').publish(message);
    return new Response('ok');
  } };`;
  const { ask, got } = await tailed(t, { code, fields: {} });
  await ask('/');
  const [item] = await until(async () => {
    const { events } = await got();
    return events.length > 0 && events;
  }, 'the event');
  assert.deepEqual(
    item!.logs.map(({ message }: Item) => message),
    [['kept']],
  );
  assert.deepEqual(
    item!.diagnosticsChannelEvents.map(({ message }: Item) => message),
    [null, { order: 1 }, null, '1970-01-01T00:00:00.000Z'],
  );
});

test('e-mails are events', async (t) => {
  const code = `export default { email(message) {
    console.log('an e-mail for', message.to);
    if (message.to === 'fails@shop.example') throw new RangeError('not this one');
  } };`;
  const { cell, got } = await tailed(t, { code, fields: {} });
  const dispatcher = new Agent({ connect: { socketPath: cell.socketPath('health') } });
  t.after(() => dispatcher.close());
  const send = async (to: string) => {
    const headers = { 'x-cellar-call': '{"kind":"email"}' };
    const socket = new WebSocket('ws://cell/', { dispatcher, headers });
    await once(socket, 'open');
    const answered = once(socket, 'message') as Promise<[{ data: string }]>;
    socket.send(JSON.stringify({ message: { from: 'ann@mail.example', to, headers: [], rawSize: 12 } }));
    const [{ data }] = await answered;
    socket.close();
    return JSON.parse(data).outcome.kind;
  };
  assert.equal(await send('orders@shop.example'), 'accepted');
  assert.equal(await send('fails@shop.example'), 'failed');
  const items = await until(async () => {
    const { events } = await got();
    return events.length === 2 && events;
  }, 'both events');
  const [failed, taken] = ['exception', 'ok'].map((how) => items.find(({ outcome }) => outcome === how));
  const mail = { mailFrom: 'ann@mail.example', rawSize: 12 };
  assert.deepEqual(taken!.event, { ...mail, rcptTo: 'orders@shop.example' });
  assert.deepEqual(
    taken!.logs.map(({ message }: Item) => message),
    [['an e-mail for', 'orders@shop.example']],
  );
  assert.deepEqual(failed!.event, { ...mail, rcptTo: 'fails@shop.example' });
  assert.deepEqual(
    [failed!.outcome, ...failed!.exceptions.map(({ name, message }: Item) => `${name}: ${message}`)],
    ['exception', 'RangeError: not this one'],
  );
});
