// An app's log through the real host: its output and the host's events are listed and streamed soon.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HostStats } from '../../handlers/contract/admin.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { EventReader } from '../support/handlers/events-source.ts';
import { eventually } from '../support/processes.ts';

const WORKER = `let n = 0;
export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === '/print') console.log(searchParams.get('text'));
    if (pathname === '/fail') console.error(new TypeError('it failed'));
    if (pathname === '/raw') console.warn('\\u001b[31mred\\u0000 ' + 'x'.repeat(1_000_000));
    if (pathname === '/count') for (let i = 0; i < 10; i++) console.log('count ' + n++);
    if (pathname === '/loop') for (;;);
    if (pathname === '/flood') for (let end = Date.now() + 1_000; Date.now() < end; await scheduler.wait(0))
      for (let i = 0; i < 500; i++) console.log('a line of the flood');
    return new Response('done');
  },
};
`;

/** Longest delay of a line, in ms. Much more than usual, for busy machines. */
const SOON_MS = 10_000;

interface Line {
  id: string;
  at: string;
  level: string;
  source: string;
  text: string;
  release: string | null;
}

let cellar: Cellar;
let id: string;
before(async () => {
  cellar = await new Cellar({ RUNNER_FLEET_LOG: 'info' }).start();
  id = await cellar.deploy('talking', 'hello', { 'index.js': WORKER });
});
after(() => cellar[Symbol.asyncDispose]());

async function list(query = '', appId = id): Promise<Line[]> {
  const { status, body } = await cellar.call('GET', `/v1/apps/${appId}/logs?${query}`);
  assert.equal(status, 200, JSON.stringify(body));
  return body.items;
}

const follow = (query = '', headers: Record<string, string> = {}) =>
  EventReader.open(`${cellar.api}/v1/apps/${id}/logs/stream?${query}`, {
    headers: { authorization: `Bearer ${cellar.token}`, ...headers },
  });
const print = (text: string) => cellar.get('talking', `/print?text=${encodeURIComponent(text)}`);

test('the output of an app is in its log soon, and not in the host’s', async () => {
  await print('a first word');
  const asked = performance.now();
  await eventually(async () => (await list('search=first%20WORD')).length === 1, 'the line is listed');
  assert.ok(performance.now() - asked < SOON_MS);
  const [line] = await list('search=first');
  assert.deepEqual([line!.level, line!.source, line!.text], ['info', 'app', 'a first word']);
  assert.ok(Math.abs(Date.now() - Date.parse(line!.at)) < 10_000);
  assert.equal(line!.release, (await cellar.app(id)).live_deploy_id);
  assert.doesNotMatch(cellar.output, /a first word/);
  await cellar.get('talking', '/fail');
  await eventually(
    async () => (await list('level=error&search=it%20failed')).length > 0,
    'the error is listed',
  );
});

test('long lines are cut, and control characters are removed', async () => {
  await cellar.get('talking', '/raw');
  await eventually(async () => (await list('search=red&level=warn')).length === 1, 'the line is listed');
  const [{ text }] = (await list('search=red')) as [Line];
  assert.ok(/^red x+/.test(text) && !text.includes('\u0000') && text.length < 17_000, text.slice(0, 100));
});

test('a list applies its filters, and refuses invalid ones', async () => {
  await print('now');
  await eventually(async () => (await list('search=now')).length > 0, 'the line is listed');
  const now = encodeURIComponent(new Date().toISOString());
  assert.deepEqual(await list(`search=now&since=${now}`), []);
  assert.equal((await list(`search=now&until=${now}&limit=1`)).length, 1);
  for (const query of [
    'level=loud',
    'since=today',
    'search=',
    'trace_id=x',
    'limit=0',
    'hours=1',
    'cursor=abc',
    `search=${'x'.repeat(201)}`,
  ])
    assert.equal((await cellar.call('GET', `/v1/apps/${id}/logs?${query}`)).status, 400, query);
  assert.equal((await cellar.call('GET', '/v1/apps/0000000000000000/logs')).status, 404);
});

test('a stream has each line soon, and resumes without a gap or a repeat', async () => {
  const ids: string[] = [];
  const seen: string[] = [];
  const take = async (reader: EventReader, count: number) => {
    for (const { id, data } of await reader.take(count)) {
      ids.push(id!);
      seen.push((JSON.parse(data!) as Line).text);
    }
    reader.close();
  };
  const first = await follow('search=count');
  const asked = performance.now();
  await cellar.get('talking', '/count');
  await take(first, 7);
  assert.ok(performance.now() - asked < SOON_MS);
  await cellar.get('talking', '/count');
  const second = await follow('search=count', { 'last-event-id': ids.at(-1)! });
  await cellar.get('talking', '/count');
  await take(second, 23);
  assert.deepEqual(
    seen,
    Array.from({ length: 30 }, (_, n) => `count ${n}`),
  );
  const rising = ids.map(Number);
  assert.deepEqual(
    rising,
    rising.toSorted((a, b) => a - b),
  );
});

test('over RPC each log event is a notification', async () => {
  const reader = await EventReader.open(`${cellar.api}/rpc`, {
    method: 'POST',
    headers: { authorization: `Bearer ${cellar.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'logs.stream', params: { id, level: 'error' } }),
  });
  await print('not an error');
  await cellar.get('talking', '/fail');
  const [event] = await reader.take(1);
  const { jsonrpc, method, params } = JSON.parse(event!.data!);
  assert.deepEqual([jsonrpc, method, params.level], ['2.0', 'logs.stream', 'error']);
  reader.close();
});

test('the log of an app that floods it says how many lines were dropped, and another app loses none', async () => {
  const other = await cellar.deploy('neighbour', 'hello', { 'index.js': WORKER });
  const flood = cellar.get('talking', '/flood');
  for (let i = 0; i < 20; i++) await cellar.get('neighbour', '/count');
  assert.equal((await flood).text, 'done');
  await eventually(async () => (await list('search=were%20dropped')).length > 0, 'the log says so');
  assert.match((await list('search=were%20dropped'))[0]!.text, /^\d+ lines were dropped: /);
  await eventually(
    async () => (await list('search=count&limit=200', other)).length === 200,
    'every line is there',
  );
});

test('closed streams make room for new ones', async () => {
  const all = await Promise.all(Array.from({ length: 100 }, () => follow()));
  const refused = await follow();
  assert.equal(refused.response.status, 429);
  for (const reader of all) reader.close();
  const another = async () => {
    const reader = await follow();
    reader.close();
    return reader.response.status === 200;
  };
  await eventually(another, 'one more may listen');
});

test('the host’s figures match the contract, and count wakes', async () => {
  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  await cellar.get('talking');
  const stats = async () => HostStats.parse((await cellar.call('GET', '/v1/admin/stats')).body.host);
  await eventually(async () => {
    const { wakes, cells, telemetry } = await stats();
    const counted = wakes.count >= 1 && wakes.p99_ms! > 0 && cells.running >= 1;
    return counted && telemetry.files.logs! > 0 && telemetry.dropped.log_lines! > 0;
  }, 'the wake, the process and the lines are counted');
  assert.deepEqual((await stats()).control_plane, { answers: true, restarts: 0 });
});

test('actions on an app are in its log', async () => {
  const said = async (source: string, text: RegExp, level: string) =>
    (await list('limit=200')).some(
      (line) => line.source === source && line.level === level && text.test(line.text),
    );
  await cellar.deployAgain('talking', 'hello', { 'index.js': `${WORKER}//` });
  await eventually(() => said('build', /^▸ start: in place of/, 'info'), 'the deploy is in the log');
  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  await eventually(() => said('supervisor', /^the app sleeps/, 'info'), 'the sleep is in the log');
  await cellar.get('talking');
  await eventually(() => said('supervisor', /^a process runs after/, 'info'), 'the wake is in the log');
});

test('a stop of the host ends streams at once, and the log is complete after the start', async () => {
  await print('before the stop');
  await eventually(async () => (await list('search=before%20the%20stop')).length === 1, 'the line is listed');
  const reader = await follow();
  const asked = performance.now();
  const ending = (async () => {
    while ((await reader.block()) !== null);
    return performance.now() - asked;
  })();
  await cellar.stop();
  assert.ok((await ending) < SOON_MS, 'the stream does not wait for the drain');
  await cellar.start();
  assert.equal((await list('search=before%20the%20stop')).length, 1);
});

test('deleting an app removes its log and ends its streams', async () => {
  const gone = await cellar.deploy('gone', 'hello', { 'index.js': WORKER });
  const reader = await EventReader.open(`${cellar.api}/v1/apps/${gone}/logs/stream`, {
    headers: { authorization: `Bearer ${cellar.token}` },
  });
  assert.equal((await cellar.call('DELETE', `/v1/apps/${gone}`)).status, 204);
  while ((await reader.block()) !== null);
  assert.equal((await cellar.call('GET', `/v1/apps/${gone}/logs`)).status, 404);
});

test("the output of an app is in its log also when Node's console and process are polyfills", async () => {
  const polyfilled = await cellar.deploy('polyfilled', 'hello', {
    'wrangler.json': JSON.stringify({
      name: 'x',
      main: 'index.js',
      compatibility_date: '2025-04-01',
      compatibility_flags: ['nodejs_compat'],
    }),
    'index.js': `import os from 'node:os';
      export default { fetch: () => (console.log('printed by ' + process.version), new Response(os.platform() + typeof console.Console)) }`,
  });
  assert.equal((await cellar.get('polyfilled')).text, 'linuxfunction');
  await eventually(
    async () => (await list('', polyfilled)).some(({ text }) => text.startsWith('printed by v')),
    'the line is listed',
  );
});
