// Live streams: order, resumption, both transports, ends.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl, TOKEN } from '../support/handlers/control.ts';
import { EventReader } from '../support/handlers/events-source.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '100' });
});
after(() => control.stop());

const bearer = { authorization: `Bearer ${TOKEN}` };
const follow = (id: string, stream = 'events', headers: Record<string, string> = {}) =>
  EventReader.open(`${control.url}/v1/apps/${id}/${stream}/stream`, { headers: { ...bearer, ...headers } });
const log = async (id: string, event: string) =>
  (await control.api('POST', `/v1/apps/${id}/events`, { channel: 'c', event })).body;
const eventOf = ({ data }: { data?: string }) => JSON.parse(data!).event;

const fact = (seq: number, app_id: string, status: string) => ({
  seq,
  at: '2026-01-01T00:00:00.000Z',
  type: 'deploy',
  deploy: {
    id: '0'.repeat(16),
    app_id,
    sha: 'a'.repeat(40),
    ref: 'refs/heads/main',
    message: '',
    author: '',
    trigger: 'push',
    status,
    can_roll_back: false,
    steps: [],
    error: null,
    created_at: '2026-01-01T00:00:00.000Z',
    started_at: null,
    finished_at: null,
  },
});
const tell = (events: object[]) => control.internal('/internal/host-events', { outbox: 'one', events });

test('an event stream answers at once, then sends each event as it is logged, to every listener', async () => {
  const { id } = await control.create('live');
  const readers = await Promise.all([follow(id), follow(id)]);
  for (const { response } of readers) {
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-type'), 'text/event-stream');
    assert.ok(response.headers.get('x-request-id'));
  }
  const logged = [await log(id, 'one'), await log(id, 'two')];
  for (const reader of readers) {
    const events = await reader.take(2);
    assert.deepEqual(
      events.map(({ data }) => JSON.parse(data!)),
      logged,
    );
    assert.deepEqual(
      events.map(({ id }) => id),
      ['1', '2'],
    );
    reader.close();
  }
});

test('Last-Event-ID resumes without a gap or a repeat, however events and resumption interleave', async () => {
  const { id } = await control.create('resumed');
  for (let n = 1; n <= 5; n++) await log(id, `${n}`);
  const reader = await follow(id, 'events', { 'last-event-id': '2' });
  const racing = Promise.all(Array.from({ length: 10 }, (_, n) => log(id, `${n + 6}`)));
  const events = await reader.take(13);
  await racing;
  assert.deepEqual(
    events.map(({ id }) => Number(id)),
    Array.from({ length: 13 }, (_, n) => n + 3),
  );
  assert.equal(new Set(events.map(eventOf)).size, 13);
  reader.close();
  const fresh = await follow(id);
  await log(id, 'after');
  assert.deepEqual((await fresh.take(1)).map(eventOf), ['after']);
  fresh.close();
});

test('a client that resumes too late, or with an id of another stream, is told to read the list again', async () => {
  const { id } = await control.create('late');
  const batch = (from: number) =>
    control.rpc(
      Array.from({ length: 100 }, (_, n) => ({
        jsonrpc: '2.0',
        method: 'events.log',
        params: { id, channel: 'c', event: `${from + n}` },
      })),
    );
  for (let n = 0; n < 11; n++) await batch(n * 100);
  const reader = await follow(id, 'events', { 'last-event-id': '50' });
  const [reset, first] = await reader.take(2);
  assert.equal(reset!.event, 'reset');
  assert.equal(first!.id, '101');
  assert.equal((await reader.take(999)).at(-1)!.id, '1100');
  reader.close();
  const kept = await follow(id, 'events', { 'last-event-id': '100' });
  assert.deepEqual((await kept.take(1))[0]!.id, '101');
  kept.close();
  const ahead = await follow(id, 'events', { 'last-event-id': '5000' });
  assert.equal((await ahead.take(1))[0]!.event, 'reset');
  ahead.close();
});

test('a bad Last-Event-ID and an unknown app are refused before the stream begins', async () => {
  const { id } = await control.create('picky');
  const bad = await control.api('GET', `/v1/apps/${id}/events/stream`, undefined, { 'last-event-id': 'x' });
  assert.deepEqual([bad.status, bad.body.errors[0].path], [400, 'last_event_id']);
  const head = await control.api('HEAD', `/v1/apps/${id}/events/stream`);
  assert.deepEqual([head.status, head.text], [200, '']);
  assert.equal((await control.api('GET', '/v1/apps/nope/events/stream')).body.code, 'app_not_found');
  assert.equal((await control.api('GET', '/v1/apps/nope/deploys/stream')).body.code, 'app_not_found');
});

test('a deploy stream has each change of the host once, even when it is reported again', async () => {
  const { id } = await control.create('deployed');
  const reader = await follow(id, 'deploys');
  await tell([fact(1, id, 'queued'), fact(2, id, 'building')]);
  await tell([fact(2, id, 'building'), fact(3, id, 'live')]);
  const events = await reader.take(3);
  assert.deepEqual(
    events.map(({ data }) => JSON.parse(data!).status),
    ['queued', 'building', 'live'],
  );
  const [listed] = (await control.api('GET', `/v1/apps/${id}/deploys`)).body.items;
  assert.deepEqual(JSON.parse(events[2]!.data!), listed);
  reader.close();
});

const lines = (seq: number, app_id: string, ...text: string[]) => ({
  seq,
  at: '2026-01-01T00:00:00.000Z',
  type: 'lines',
  lines: { app_id, deploy_id: '0'.repeat(16), lines: text },
});

test('a deploy stream has log lines as events of their own, after a resume too', async () => {
  const { id } = await control.create('spoken');
  const told = (events: object[]) => control.internal('/internal/host-events', { outbox: 'two', events });
  const reader = await follow(id, 'deploys');
  await told([fact(1, id, 'building'), lines(2, id, '▸ build: npm run build', 'compiling')]);
  assert.equal((await told([lines(3, id, 'done'), lines(4, 'f'.repeat(16), 'of no app')])).status, 204);
  await told([lines(3, id, 'done'), fact(5, id, 'live')]);
  const events = await reader.take(4);
  assert.deepEqual(
    events.map(({ id, event }) => [id, event]),
    [
      ['1', undefined],
      ['2', 'log'],
      ['3', 'log'],
      ['4', undefined],
    ],
  );
  assert.deepEqual(JSON.parse(events[1]!.data!), {
    deploy_id: '0'.repeat(16),
    lines: ['▸ build: npm run build', 'compiling'],
  });
  reader.close();
  const resumed = await follow(id, 'deploys', { 'last-event-id': '2' });
  assert.deepEqual(
    (await resumed.take(2)).map(({ data }) => JSON.parse(data!).lines ?? JSON.parse(data!).status),
    [['done'], 'live'],
  );
  resumed.close();
});

test('over RPC each event is a notification; in a batch a stream is an error', async () => {
  const { id } = await control.create('notifying');
  const call = { jsonrpc: '2.0', id: 1, method: 'events.stream', params: { id } };
  const reader = await EventReader.open(`${control.url}/rpc`, {
    method: 'POST',
    headers: { ...bearer, 'content-type': 'application/json' },
    body: JSON.stringify(call),
  });
  assert.equal(reader.response.headers.get('content-type'), 'text/event-stream');
  const logged = await log(id, 'told');
  const [event] = await reader.take(1);
  assert.deepEqual(JSON.parse(event!.data!), { jsonrpc: '2.0', method: 'events.stream', params: logged });
  reader.close();
  const resumed = await EventReader.open(`${control.url}/rpc`, {
    method: 'POST',
    headers: { ...bearer, 'content-type': 'application/json' },
    body: JSON.stringify({ ...call, params: { id, last_event_id: '0' } }),
  });
  assert.equal((await resumed.take(1))[0]!.id, '1');
  resumed.close();
  const batched = (await control.rpc([call])).body;
  assert.deepEqual([batched[0].id, batched[0].error.code], [1, -32600]);
  const { id: _, ...notification } = call;
  assert.equal((await control.rpc(notification)).status, 204);
  assert.equal((await control.refusal('events.stream', { id: 'nope' })).code, 'app_not_found');
});

test('deleting the app ends its streams', async () => {
  const { id } = await control.create('ending');
  const reader = await follow(id);
  await reader.block();
  await control.api('DELETE', `/v1/apps/${id}`);
  assert.equal(await reader.block(), null);
});

test('a listener over the limit is refused with 429; listeners that left free their places', async () => {
  const { id } = await control.create('crowded');
  const readers: EventReader[] = [];
  while (readers.length < 1000) {
    readers.push(...(await Promise.all(Array.from({ length: 100 }, () => follow(id)))));
  }
  assert.ok(readers.every(({ response }) => response.status === 200));
  const { status, body, headers } = await control.api('GET', `/v1/apps/${id}/events/stream`);
  assert.deepEqual([status, body.code], [429, 'rate_limited']);
  assert.ok(headers.get('retry-after'));
  await log(id, 'to all');
  assert.deepEqual((await readers.at(-1)!.take(1)).map(eventOf), ['to all']);
  for (const reader of readers) reader.close();
  // A closed connection is noticed at the next send: an event, or the next heartbeat.
  const deadline = Date.now() + 10_000;
  let reader = await follow(id);
  while (reader.response.status === 429 && Date.now() < deadline) {
    await log(id, 'passing');
    reader = await follow(id);
  }
  assert.equal(reader.response.status, 200);
  await log(id, 'last');
  assert.deepEqual((await reader.take(1)).map(eventOf), ['last']);
  reader.close();
});

test('a stream ends when its reader loses the role on the app, or the key', async () => {
  const { id } = await control.create('guarded');
  const person = async (name: string) => {
    const account = await control.call('accounts.create', { name, email: `${name}@example.com` });
    const { id: keyId, key } = await control.call('keys.create', { account: account.id });
    await control.call('collaborators.set', { id, account: account.id, role: 'view' });
    return { account: account.id, keyId, headers: { authorization: `Bearer ${key}` } };
  };
  const [removed, revoked, staying] = [
    await person('removed'),
    await person('revoked'),
    await person('staying'),
  ];
  const [first, second, third] = await Promise.all(
    [removed, revoked, staying].map(({ headers }) => follow(id, 'events', headers)),
  );
  await log(id, 'before');
  for (const reader of [first, second, third]) assert.equal(eventOf((await reader!.take(1))[0]!), 'before');
  const ended = async (reader: EventReader) => {
    let block = await reader.block();
    while (block !== null) {
      assert.equal(block.data, undefined);
      block = await reader.block();
    }
  };
  await control.call('collaborators.remove', { id, account: removed.account });
  await ended(first!);
  await control.call('keys.revoke', { id: revoked.keyId });
  await ended(second!);
  await control.call('collaborators.set', { id, account: staying.account, role: 'push' });
  await log(id, 'after');
  assert.equal(eventOf((await third!.take(1))[0]!), 'after');
  third!.close();
  assert.equal((await follow(id, 'events', removed.headers)).response.status, 403);
});
