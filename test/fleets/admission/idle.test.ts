import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { MemoryGauge } from '../../../runtime/fleets/admission/memory.ts';
import { Slots } from '../../../runtime/fleets/admission/slots.ts';
import type { FleetOptions } from '../../../runtime/fleets/life/fleet.ts';
import { socketPath } from '../../../runtime/fleets/process/cell-directories.ts';
import { assertGone, type Harness, harness } from '../../support/fleets/harness.ts';
import { eventually } from '../../support/processes.ts';

/** A fleet with version 1 of an app, whose process hibernates at the first idle check. */
async function started(t: TestContext, options: Partial<FleetOptions> = {}): Promise<Harness> {
  const app = harness(t, { idleMs: 0, ...options });
  await app.fleet.start(await app.release(1));
  return app;
}

/** Runs two idle checks, as the host's timer does: the first one may see a request since the previous check. */
function looks({ fleet }: Harness): void {
  fleet.tick();
  fleet.tick();
}

test('an idle app hibernates, and its next request starts a process with its data', async (t) => {
  const app = await started(t);
  assert.equal((await app.ask('/')).text, '{"version":1,"count":1,"rows":1}');
  const { pid } = app.fleet;
  looks(app);
  await app.rested();
  assertGone(pid);
  assert.deepEqual([app.fleet.state, app.fleet.pid, app.fleet.lastError], ['idle', null, null]);
  assert.equal(await app.fleet.healthy(), true);
  assert.equal(app.fleet.pid, null, 'asking for its health starts nothing');
  assert.deepEqual(app.rests, [{ dueAt: null }]);
  assert.equal((await app.ask('/')).text, '{"version":1,"count":2,"rows":2}');
  assert.deepEqual(app.rests, [{ dueAt: null }, null]);
  assert.deepEqual(
    app.states.map(([state]) => state),
    ['starting', 'running', 'idle', 'running'],
  );
});

test('the usage of an app that goes idle ends with one that says that no process is left', async (t) => {
  const app = await started(t);
  assert.equal(app.fleet.takeUsage()?.processes, 1);
  looks(app);
  await app.rested();
  const { processes, memoryBytes } = app.fleet.takeUsage() ?? {};
  assert.deepEqual([processes, memoryBytes], [0, 0]);
  assert.equal(app.fleet.takeUsage(), null);
});

test('an open request or one since the last check keeps the process', async (t) => {
  const app = await started(t);
  const { pid } = app.fleet;
  const slow = app.ask('/slow');
  looks(app);
  looks(app);
  assert.equal(app.fleet.openStreams, 1);
  await slow;
  assert.equal(app.fleet.openStreams, 0);
  await app.ask('/version');
  app.fleet.tick();
  assert.deepEqual([app.fleet.state, app.fleet.pid], ['running', pid]);
  app.fleet.tick();
  await app.rested();
});

test('an open WebSocket keeps the process', async (t) => {
  const app = await started(t);
  const admission = app.fleet.admit();
  assert.ok(admission.kind === 'forward');
  const closed = admission.upstream.track({ close: () => {}, destroy: () => {} });
  looks(app);
  assert.deepEqual([app.fleet.state, app.fleet.openStreams], ['running', 1]);
  closed();
  looks(app);
  await app.rested();
});

test('requests that arrive during hibernation are queued and served by the next process', async (t) => {
  const app = await started(t);
  for (let round = 1; round <= 5; round++) {
    const { pid } = app.fleet;
    looks(app);
    await app.until(() => app.fleet.state === 'idle');
    const held = Array.from({ length: 20 }, () => app.ask('/'));
    await app.until(() => app.fleet.state === 'running' && app.fleet.pid !== pid);
    assertGone(pid);
    for (const { status } of await Promise.all(held)) assert.equal(status, 200);
  }
  assert.equal((await app.ask('/')).text, '{"version":1,"count":101,"rows":101}');
});

/** Workers of each form, whose work goes on after the answer. Each prints a line when that work has ended. */
const LATER: Record<string, string> = {
  'an object': `export default {
    async fetch(request, env, ctx) {
      ctx.waitUntil(scheduler.wait(600).then(() => console.log('worked on')));
      return new Response('answered');
    },
  };`,
  'an instance': `class App {
    #text = 'answered';
    async fetch(request, env, ctx) {
      ctx.waitUntil(scheduler.wait(600).then(() => console.log('worked on')));
      return new Response(this.#text);
    }
  }
  export default new App();`,
  'a class': `import { WorkerEntrypoint } from 'cloudflare:workers';
  export default class extends WorkerEntrypoint {
    async fetch() {
      this.ctx.waitUntil(scheduler.wait(600).then(() => console.log('worked on')));
      return new Response('answered');
    }
  }`,
  'an object whose work fails': `export default {
    async fetch(request, env, ctx) {
      ctx.waitUntil(scheduler.wait(600).then(() => { console.log('worked on'); throw new Error('failed'); }));
      return new Response('answered');
    },
  };`,
};

for (const [how, code] of Object.entries(LATER)) {
  test(`work that goes on after an answer keeps the process: ${how}`, async (t) => {
    const app = harness(t, { idleMs: 0 });
    await app.fleet.start(await app.release(1, { code, migrations: {} }));
    assert.equal((await app.ask('/')).text, 'answered');
    const clock = setInterval(() => app.fleet.tick(), 20);
    t.after(() => clearInterval(clock));
    await app.rested();
    await app.until(() => app.lines.some((line) => line.includes('worked on')));
  });
}

test('a thousand first requests share one start', async (t) => {
  const app = await started(t);
  looks(app);
  await app.rested();
  const before = app.states.length;
  const answers = await Promise.all(Array.from({ length: 1_000 }, () => app.ask('/version')));
  assert.ok(answers.every(({ status }) => status === 200));
  assert.deepEqual(
    app.states.slice(before).map(([state]) => state),
    ['running'],
  );
});

test('a request starts a sleeping app as it does a hibernated one, and the app wakes once it serves', async (t) => {
  const marks: boolean[] = [];
  const app = await started(t, { onAsleep: (asleep) => marks.push(asleep) });
  await app.fleet.sleep();
  assert.deepEqual([app.fleet.state, app.fleet.pid, marks], ['stopped', null, [true]]);
  const held = app.fleet.wake();
  assert.ok(held?.kind === 'hold', 'a proxy that asks first');
  await held.ready;
  assert.equal(app.fleet.wake(), null);
  assert.deepEqual([app.fleet.state, marks], ['running', [true, false]]);
  await app.fleet.sleep();
  assert.equal((await app.ask('/version')).text, '1');
  assert.deepEqual(marks, [true, false, true, false]);
});

test('only the end of an idle process is logged as that', async (t) => {
  let evict = (_why: string) => {};
  class Gauge extends MemoryGauge {
    override watch(...words: Parameters<MemoryGauge['watch']>): void {
      super.watch(...words);
      evict = words[1].evict;
    }
  }
  const app = await started(t, { memory: new Gauge(0, 512) });
  const isIdleLine = (line: string) => /because the app is idle/.test(line);
  evict('others need its memory');
  await app.rested();
  assert.ok(app.lines.includes('others need its memory'));
  assert.ok(!app.lines.some(isIdleLine), app.lines.join('\n'));
  assert.equal((await app.ask('/version')).text, '1');
  looks(app);
  await app.rested();
  assert.ok(app.lines.some(isIdleLine));
});

test('without an idle timeout a process never hibernates', async (t) => {
  const app = await started(t, { idleMs: Number.POSITIVE_INFINITY });
  looks(app);
  looks(app);
  assert.equal(app.fleet.state, 'running');
});

test('a hibernated app can be stopped, started and deployed to', async (t) => {
  const app = await started(t);
  looks(app);
  await app.rested();
  await app.fleet.stop();
  assert.deepEqual([app.fleet.state, (await app.ask('/')).status], ['stopped', 503]);
  await app.fleet.start(await app.release(1));
  looks(app);
  await app.rested();
  await app.fleet.swap(await app.release(2), { commit: async () => {}, log: () => {} });
  assert.equal((await app.ask('/version')).text, '2');
  looks(app);
  await app.rested();
  const broken = await app.release(3, { migrations: { '1.sql': '', '2.sql': 'nonsense' } });
  await assert.rejects(app.fleet.swap(broken, { commit: async () => {}, log: () => {} }), /nonsense/);
  assert.equal(app.fleet.state, 'idle', 'it was hibernated, and is so again');
  assert.equal((await app.ask('/version')).text, '2');
});

test('a request during a deploy to a hibernated app starts no second process', async (t) => {
  const app = await started(t);
  looks(app);
  await app.rested();
  const before = app.states.length;
  const swapped = app.fleet.swap(await app.release(2), { commit: async () => {}, log: () => {} });
  const held = app.ask('/version');
  await swapped;
  const { pid } = app.fleet;
  assert.equal((await held).text, '2');
  await app.fleet.start(await app.release(2));
  assert.equal(app.fleet.pid, pid);
  assert.deepEqual(
    app.states.slice(before).map(([state]) => state),
    ['running'],
  );
});

test('a stop cancels a wake and refuses its requests', async (t) => {
  const app = await started(t);
  looks(app);
  await app.rested();
  const held = app.ask('/');
  await app.fleet.stop();
  assert.equal((await held).status, 503);
  assert.deepEqual([app.fleet.state, app.fleet.pid], ['stopped', null]);
  assert.deepEqual(
    readdirSync(`${app.root}/run`).filter((name) => name.endsWith('.new')),
    [],
  );
});

test('a release that no longer starts fails its wake at once, and requests are refused until the next attempt', async (t) => {
  const app = harness(t, { idleMs: 0 });
  const broken = await app.release(1, { code: 'throw new Error("no"); export default {}', migrations: {} });
  app.fleet.restore('idle', broken, { dueAt: null });
  const { status } = await app.ask('/');
  assert.deepEqual([status, app.fleet.state], [503, 'crashed']);
  const admission = app.fleet.admit();
  assert.ok(admission.kind === 'refuse' && admission.retryAfterS! >= 1);
});

test('a new process clears the hibernated state, and the change is on disk before the process serves', async (t) => {
  const pids: (number | null)[] = [];
  const states: string[] = [];
  const onRest = async () => {
    pids.push(processOf(app));
    // A disk that is slower than the start.
    await eventually(() => existsSync(socketPath(`${app.root}/run`, 'http')), 'the process has started');
    for (let turns = 0; turns < 100; turns++) await new Promise((resolve) => setImmediate(resolve));
    states.push(app.fleet.state);
  };
  const app = harness(t, { idleMs: 0, onRest });
  const release = await app.release(1, { migrations: {} });
  app.fleet.restore('idle', release, { dueAt: null });
  assert.equal((await app.ask('/version')).text, '1');
  assert.equal(pids.length, 1);
  assert.equal(pids[0], app.fleet.pid);
  assert.deepEqual(states, ['idle']);
});

/** The process recorded on an app's storage, which a host reads after a crash. */
function processOf({ root }: Harness): number {
  return Number.parseInt(readFileSync(`${root}/run/cell.pid`, 'utf8'), 10);
}

test('a start for a request wakes a sleeping app; one for a lease or due work does not', async (t) => {
  const app = harness(t, { idleMs: 0 });
  app.fleet.restore('idle', await app.release(1, { migrations: {} }), { dueAt: null });
  app.fleet.asleep = true;
  const used = app.fleet.withCell('a test', async () => {});
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([app.fleet.pid, app.fleet.isWaking], [null, false]);
  await used;
  assert.equal(app.fleet.asleep, true);
  await app.fleet.sleep();
  const asked = app.ask('/version');
  assert.equal(app.fleet.isWaking, true);
  assert.equal((await asked).text, '1');
  assert.deepEqual([app.fleet.asleep, app.fleet.isWaking], [false, false]);
});

test('a sleeping app that fails to start stays asleep and is retried only after a pause', async (t) => {
  const app = harness(t, { idleMs: 0 });
  const code = 'console.log("begins"); throw new Error("no"); export default {}';
  const broken = await app.release(1, { code, migrations: {} });
  app.fleet.restore('idle', broken, { dueAt: null });
  app.fleet.asleep = true;
  for (const ask of [() => app.ask('/'), () => app.ask('/')]) assert.equal((await ask()).status, 503);
  const refused = app.fleet.wake();
  assert.ok(refused?.kind === 'refuse');
  assert.ok(refused.reason === 'wake_failed' && refused.retryAfterS! >= 1);
  assert.match(app.fleet.lastError!, /no/);
  assert.equal(app.fleet.asleep, true);
  assert.equal(app.lines.filter((line) => line.includes('begins')).length, 1);
});

test('when memory is short, new starts are refused and running apps keep serving', async (t) => {
  const memory = new MemoryGauge(1, 512);
  assert.equal(memory.over, true, 'this process alone has more than 1 MiB');
  const app = harness(t, { idleMs: 0, memory });
  await app.fleet.swap(await app.release(1), { commit: async () => {}, log: () => {} });
  assert.equal((await app.ask('/version')).status, 200);
  looks(app);
  await app.rested();
  const admission = app.fleet.admit();
  assert.ok(admission.kind === 'refuse' && admission.status === 503 && admission.retryAfterS! > 0);
  assert.equal(admission.code, 'app_unavailable');
  await assert.rejects(app.fleet.start(await app.release(1)), /RUNNER_FLEET_MAX_RSS_MB/);
  assert.deepEqual([app.fleet.state, app.fleet.pid], ['idle', null]);
});

test('starts wait for their turn', async (t) => {
  const slots = new Slots(1, 60_000);
  const up: number[] = [];
  const apps = Array.from({ length: 3 }, (_, index) =>
    harness(t, { idleMs: 0, slots, onState: (state) => state === 'running' && up.push(index) }),
  );
  for (const app of apps) app.fleet.restore('idle', await app.release(1), { dueAt: null });
  const answers = apps.map(async (app) => (await app.ask('/version')).status);
  assert.deepEqual(await Promise.all(answers), [200, 200, 200]);
  assert.deepEqual(up, [0, 1, 2]);
});

test('apps that hang at start do not delay the others', async (t) => {
  const slots = new Slots(1, 60_000, 100);
  const hanging = Array.from({ length: 3 }, () => harness(t, { slots }));
  const good = harness(t, { slots });
  const code = 'await new Promise(() => {}); export default {}';
  for (const app of hanging)
    app.fleet.restore('idle', await app.release(1, { code, migrations: {} }), { dueAt: null });
  good.fleet.restore('idle', await good.release(1, { migrations: {} }), { dueAt: null });
  const held = hanging.map((app) => app.ask('/'));
  assert.deepEqual(await good.ask('/version'), { status: 200, text: '1' });
  for (const { fleet } of hanging) await fleet.stop();
  assert.deepEqual(new Set((await Promise.all(held)).map(({ status }) => status)), new Set([503]));
});
