// What the API reports of errors of a pushed app, thrown in each place where its code runs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharedCellar } from '../support/e2e/shared.ts';
import { EventReader, type SentEvent } from '../support/handlers/events-source.ts';
import { eventually } from '../support/processes.ts';

const CONFIG = (minify: boolean) => `name = "shop"
main = "main.ts"
compatibility_date = "2026-10-01"
${minify ? 'minify = true' : ''}
[triggers]
crons = ["* * * * *"]
[[durable_objects.bindings]]
name = "ROOM"
class_name = "Room"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room"]
[[queues.producers]]
queue = "orders"
binding = "QUEUE"
[[queues.consumers]]
queue = "orders"
max_batch_timeout = 0
max_retries = 0
`;
/** Line 3 throws. */
const USERS = `interface User { name: string }
export function loadUser(id: string): User {
  throw new TypeError('no user ' + id);
}
`;
const MAIN = `import { DurableObject } from 'cloudflare:workers';
import { loadUser } from './users.ts';
interface Env { ROOM: DurableObjectNamespace; QUEUE: Queue }
export class Room extends DurableObject {
  join(): never { throw new RangeError('the room is full'); }
  async fetch(): Promise<Response> { throw new Error('fetched in vain'); }
  async remind() { await this.ctx.storage.setAlarm(Date.now()); }
  alarm() { if (!this.rang) { this.rang = true; throw new Error('woken up'); } }
  rang = false;
}
export default {
  async fetch(request: Request, env: Env, ctx: ExecutionContext) {
    const { pathname } = new URL(request.url);
    const room = env.ROOM.getByName('one');
    if (pathname === '/user') { console.log('looking for the user'); return new Response(loadUser('17').name); }
    if (pathname === '/join') await room.join();
    if (pathname === '/object') await room.fetch('http://room/');
    if (pathname === '/remind') await room.remind();
    if (pathname === '/queue') await env.QUEUE.send('x');
    if (pathname === '/waits') ctx.waitUntil(Promise.reject(new Error('done too late')));
    if (pathname === '/reject') void Promise.reject(new Error('nobody cares'));
    if (pathname === '/log') console.error('it went wrong:', new Error('only printed'));
    if (pathname === '/other') throw new Error('of another kind');
    if (pathname === '/unbound') await env.FILES.get('a');
    if (pathname === '/nothing') return;
    if (pathname === '/hangs') return new Promise(() => {});
    if (pathname === '/breaks') return new Response(new ReadableStream({ pull: (body) => body.error(new Error('cut short')) }));
    return new Response('fine');
  },
  async scheduled() { throw new Error('too early'); },
  async queue() { throw new Error('not in stock'); },
};
`;

interface Group {
  fingerprint: string;
  kind: string;
  message: string;
  place: string | null;
  count: number;
  status: string;
  regressed_at: string | null;
  method: string | null;
  path: string | null;
  trace_id: string | null;
  last_release: string | null;
}
interface Occurrence extends Omit<Group, 'count'> {
  stack: string | null;
  handler: string | null;
  mechanism: string;
  release: string | null;
  log: { level: string; text: string }[];
}

const cellar = sharedCellar('running');
/** The app's id, set by the first test. */
let id: string;
const files = (minify = false) => ({ 'wrangler.toml': CONFIG(minify), 'main.ts': MAIN, 'users.ts': USERS });

async function rpc<Result>(method: string, params: Record<string, unknown> = {}): Promise<Result> {
  const { body } = await cellar.call('POST', '/rpc', {
    jsonrpc: '2.0',
    id: 1,
    method,
    params: { id, ...params },
  });
  assert.ok(body.result !== undefined, JSON.stringify(body));
  return body.result;
}
const list = async (status = 'open') => (await rpc<{ items: Group[] }>('errors.list', { status })).items;

/** Waits for the error group with a message, and returns its last occurrence. */
async function occurred(message: string): Promise<Occurrence & { group: Group }> {
  const find = async () => (await list()).find((each) => each.message === message);
  await eventually(async () => (await find()) !== undefined, `it is listed: ${message}`);
  const group = (await find())!;
  const { occurrences } = await rpc<{ occurrences: Occurrence[] }>('errors.get', {
    fingerprint: group.fingerprint,
  });
  return { ...occurrences[0]!, group };
}

test('one call returns why an app answered 500: source position, request, release, trace and log', async () => {
  id = await cellar.deploy('shop', 'hello', files());
  const answer = await cellar.get('shop', '/user?secret=1');
  assert.equal(answer.status, 500);
  assert.equal(answer.text, 'Internal Server Error');
  await occurred('no user 17');
  // The log lines arrive later than the error.
  await eventually(async () => (await occurred('no user 17')).log.length === 2, 'the log is there');
  const { group, stack, log, ...rest } = await occurred('no user 17');
  assert.match(
    stack!,
    /^TypeError: no user 17\n {4}at loadUser \(users\.ts:3:9\)\n {4}at fetch \(main\.ts:15:/,
  );
  assert.deepEqual(
    [rest.place, rest.handler, rest.method, rest.path, rest.mechanism, rest.release],
    ['users.ts:3:9', 'fetch', 'GET', '/user', 'uncaught', (await cellar.app(id)).live_deploy_id],
  );
  assert.equal(rest.trace_id, answer.headers.get('x-request-id'));
  assert.deepEqual(
    log.map(({ level, text }) => [level, text.split('\n')[0]]),
    [
      ['info', 'looking for the user'],
      ['error', 'TypeError: no user 17'],
    ],
  );
  assert.equal(log[1]!.text, stack, 'its line has the places of the source, too');
  assert.deepEqual(
    [group.kind, group.count, group.status, group.place],
    ['TypeError', 1, 'open', 'users.ts:3:9'],
  );
  // When the next exception is counted, workerd's own message about the first one would have arrived.
  await cellar.get('shop', '/user');
  await eventually(async () => (await occurred('no user 17')).group.count === 2, 'it is there again');
  const { body } = await cellar.call('GET', `/v1/apps/${id}/logs?search=no%20user%2017`);
  assert.deepEqual(
    body.items.map(({ source }: { source: string }) => source),
    ['app', 'app'],
  );
});

for (const [path, message, expected] of [
  [
    '/join',
    'the room is full',
    { handler: 'Room.join', place: 'main.ts:5:25', method: 'GET', path: '/join' },
  ],
  ['/object', 'fetched in vain', { handler: 'Room.fetch', path: '/object' }],
  ['/remind', 'woken up', { handler: 'Room.alarm', method: null }],
  ['/queue', 'not in stock', { handler: 'queue' }],
  ['/waits', 'done too late', { mechanism: 'waitUntil', path: '/waits' }],
  ['/reject', 'nobody cares', { mechanism: 'unhandledrejection', path: '/reject' }],
  ['/log', 'only printed', { mechanism: 'console', path: '/log' }],
] as const) {
  test(`an error at ${path} is reported with its source position and its handler`, async () => {
    const { headers } = await cellar.get('shop', path);
    await eventually(async () => {
      const found = await occurred(message);
      return Object.entries(expected).every(([name, value]) => found[name as keyof Occurrence] === value);
    }, `${path} is known`);
    const found = await occurred(message);
    assert.match(found.place!, /^main\.ts:\d+:\d+$/);
    assert.equal(found.group.count, 1);
    if (found.path !== null) assert.equal(found.trace_id, headers.get('x-request-id'));
  });
}

test('an error from a missing binding names the binding in its stack and in the log', async () => {
  await cellar.get('shop', '/unbound');
  const { stack } = await occurred("Cannot read properties of undefined (reading 'get')");
  assert.match(
    stack!,
    /\n {4}\(The app has no binding, variable or secret FILES: add it .*\)\n {4}at fetch \(main\.ts:24:/,
  );
  await eventually(async () => {
    const { body } = await cellar.call('GET', `/v1/apps/${id}/logs?search=secret%20FILES`);
    return body.items.length === 1;
  }, 'the line');
});

for (const [path, message] of [
  ['/nothing', "Incorrect type for Promise: the Promise did not resolve to 'Response'."],
  ['/hangs', /had hung and would never generate a response/],
  ['/breaks', 'cut short'],
] as const) {
  test(`an incomplete response at ${path} is an error, though the app throws none`, async () => {
    await cellar.get('shop', path);
    const isIt = (group: Group) =>
      typeof message === 'string' ? group.message === message : message.test(group.message);
    await eventually(async () => (await list()).some(isIt), `${path} is known`);
    const { count, last_release } = (await list()).find(isIt)!;
    assert.deepEqual([count, last_release], [1, (await cellar.app(id)).live_deploy_id]);
  });
}

/** Returns a stream's next event that is not the error of the app's cron, which comes each minute. */
async function nextEvent(stream: EventReader): Promise<SentEvent> {
  for (;;) {
    const [event] = (await stream.take(1)) as [SentEvent];
    if (JSON.parse(event.data!).message !== 'too early') return event;
  }
}

test('a stream has each error within 10 s, and resumes after its last event', async () => {
  const open = (headers: Record<string, string> = {}) =>
    EventReader.open(`${cellar.api}/v1/apps/${id}/errors/stream?status=open`, {
      headers: { authorization: `Bearer ${cellar.token}`, ...headers },
    });
  const stream = await open();
  const asked = performance.now();
  await cellar.get('shop', '/other');
  const event = await nextEvent(stream);
  assert.ok(performance.now() - asked < 10_000, `after ${performance.now() - asked} ms`);
  const group = JSON.parse(event.data!) as Group;
  assert.deepEqual([group.message, group.path], ['of another kind', '/other']);
  stream.close();
  await cellar.get('shop', '/user');
  const again = await open({ 'last-event-id': event.id! });
  const missed = JSON.parse((await nextEvent(again)).data!) as Group;
  assert.deepEqual([missed.message, missed.count], ['no user 17', 3]);
  again.close();
});

test('a resolved error opens again when a newer release throws it, also a minified one', async () => {
  const { group } = await occurred('no user 17');
  const { fingerprint } = group;
  await rpc('errors.set_status', { fingerprint, status: 'resolved' });
  assert.ok(!(await list()).some((each) => each.fingerprint === fingerprint));
  const { 'users.ts': users, ...others } = files(true);
  await cellar.deployAgain('shop', 'hello', { ...others, 'users.ts': `// a line more\n${users}` });
  await eventually(async () => {
    await cellar.get('shop', '/user');
    return (await list()).some((each) => each.fingerprint === fingerprint);
  }, 'it is back');
  const { group: back, place, stack } = await occurred('no user 17');
  assert.equal(typeof back.regressed_at, 'string');
  assert.match(place!, /^users\.ts:4:/);
  assert.match(stack!, /at loadUser \(users\.ts:4:/);
});

test('unknown errors and invalid statuses are refused', async () => {
  const { body: unknown } = await cellar.call('POST', '/rpc', {
    jsonrpc: '2.0',
    id: 1,
    method: 'errors.get',
    params: { id, fingerprint: 'none' },
  });
  assert.equal(unknown.error.data.code, 'error_not_found');
  assert.equal((await cellar.call('GET', `/v1/apps/${id}/errors/stream?status=gone`)).status, 400);
});
