// Hibernation through the real gateway: clients notice only a slower first answer.
// Mostly waits.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { written } from '../support/e2e/written.ts';
import { cells, controlPlane, eventually, resume } from '../support/processes.ts';

const IDLE_S = 1;
/** Alarms are set this far ahead, in ms, so that the app hibernates before. */
const AHEAD_MS = 5_000;
/** Tolerated delay of an alarm on a busy machine, in ms. */
const LATE_MS = 20_000;
const cellar = new Cellar({ RUNNER_FLEET_IDLE_EVICT_S: String(IDLE_S) });
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

const CLOCK = `
import { DurableObject } from 'cloudflare:workers';
export class Clock extends DurableObject {
  async set(ms) {
    const at = Date.now() + ms;
    await this.ctx.storage.put('ran', []);
    await this.ctx.storage.setAlarm(at);
    return at;
  }
  async alarm() {
    const ran = await this.ctx.storage.get('ran');
    await this.ctx.storage.put('ran', [...ran, Date.now()]);
  }
  async ran() {
    return this.ctx.storage.get('ran');
  }
  async next() {
    const n = ((await this.ctx.storage.get('n')) ?? 0) + 1;
    await this.ctx.storage.put('n', n);
    return n;
  }
}
export default {
  async fetch(request, env) {
    const { pathname, search } = new URL(request.url);
    const clock = env.CLOCK.getByName('one');
    if (pathname === '/set') return Response.json(await clock.set(Number(search.slice(1))));
    return Response.json(pathname === '/ran' ? await clock.ran() : await clock.next());
  },
};`;
const CONFIG = `
name = "clock"
main = "index.js"
compatibility_date = "2026-10-01"
[[durable_objects.bindings]]
name = "CLOCK"
class_name = "Clock"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Clock"]
`;

/** Files that turn a sample into a `Clock`. */
const clock = { 'index.js': CLOCK, 'wrangler.toml': CONFIG };
const gone = (id: string) => eventually(() => cells(id).length === 0, `the process of ${id} goes`);

test('the process of an idle app ends, its status stays running, and it answers without the control plane', async () => {
  const id = await cellar.deploy('quiet', 'hello');
  assert.equal((await cellar.get('quiet')).status, 200);
  await gone(id);
  assert.equal((await cellar.call('GET', `/v1/apps/${id}`)).body.status, 'running');
  assert.equal((await cellar.get('quiet', '/.well-known/fleet/health')).status, 200);
  assert.equal(cells(id).length, 0, 'a health probe starts nothing');

  const control = controlPlane(cellar.pid)!;
  process.kill(control.pid, 'SIGSTOP');
  try {
    const answers = await Promise.all(Array.from({ length: 50 }, () => cellar.get('quiet')));
    assert.ok(answers.every(({ status }) => status === 200));
    assert.ok(cells(id).length <= 1, 'they share a process');
  } finally {
    resume(control.pid);
  }
});

test('an open WebSocket keeps its app’s process while another app’s ends', async () => {
  const [chat, quiet] = await Promise.all([cellar.deploy('chat', 'chat'), cellar.deploy('other', 'hello')]);
  const socket = cellar.webSocket('chat', '/rooms/lobby/socket');
  await once(socket, 'open', { signal: AbortSignal.timeout(60_000) });
  for (let round = 0; round < 2; round++) {
    await cellar.get('other');
    await gone(quiet);
  }
  assert.equal(cells(chat).length, 1);
  socket.close();
  await gone(chat);
});

test('requests while an app hibernates or wakes are answered, and no write is lost', async () => {
  const id = await cellar.deploy('count', 'hello', clock);
  const counts: number[] = [];
  for (let round = 0; round < 4; round++) {
    const [last] = cells(id);
    // The requests come while the process ends and until the next one serves.
    await eventually(() => !cells(id).some(({ pid }) => pid === last?.pid), 'the process goes');
    const burst = await Promise.all(Array.from({ length: 10 }, () => cellar.get('count')));
    for (const { status, text } of burst) {
      assert.equal(status, 200);
      counts.push(Number(text));
    }
    assert.ok(cells(id).length <= 1, 'they share a process');
  }
  assert.deepEqual(
    counts.sort((a, b) => a - b),
    Array.from({ length: 40 }, (_, index) => index + 1),
  );
});

test('an alarm of a hibernating app runs in time, and the process ends again', async () => {
  const id = await cellar.deploy('clock', 'hello', clock);
  const at = Number((await cellar.get('clock', `/set?${AHEAD_MS}`)).text);
  await gone(id);
  await written(cellar, id, at);
  await gone(id);
  const ran = JSON.parse((await cellar.get('clock', '/ran')).text) as number[];
  assert.equal(ran.length, 1, 'it ran once');
  assert.ok(ran[0]! >= at && ran[0]! - at < LATE_MS, `${ran[0]! - at} ms late`);
});

test('an alarm of a sleeping app runs in time, and the status stays sleeping', async () => {
  const id = await cellar.deploy('asleep-clock', 'hello', clock);
  const read = async () => (await cellar.call('GET', `/v1/apps/${id}`)).body;
  const at = Number((await cellar.get('asleep-clock', `/set?${AHEAD_MS}`)).text);
  const { body } = await cellar.call('POST', `/v1/apps/${id}/sleep`);
  assert.equal(body.status, 'sleeping');
  await gone(id);
  await written(cellar, id, at);
  await gone(id);
  const left = await read();
  assert.deepEqual([left.status, left.asleep_since], ['sleeping', body.asleep_since]);
  const ran = JSON.parse((await cellar.get('asleep-clock', '/ran')).text) as number[];
  assert.equal(ran.length, 1);
  assert.ok(ran[0]! >= at && ran[0]! - at < LATE_MS, `${ran[0]! - at} ms late`);
});

test('over the memory limit a hibernated app is refused with Retry-After, and the host warns the operator', async () => {
  // Long enough for the first request to come before the process ends, also on a busy machine.
  await using host = new Cellar({ RUNNER_FLEET_IDLE_EVICT_S: '20', RUNNER_FLEET_MAX_RSS_MB: '1' });
  await host.start();
  const id = await host.deploy('full', 'hello');
  assert.equal((await host.get('full')).status, 200);
  await gone(id);
  const refused = await host.get('full');
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers.get('retry-after')) > 0);
  assert.equal(JSON.parse(refused.text).code, 'app_unavailable');
  await host.waitFor(/RUNNER_FLEET_MAX_RSS_MB.* used_mb=\d+ limit_mb=1$/m);
});
