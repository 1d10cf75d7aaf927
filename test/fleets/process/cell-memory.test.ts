// Apps that allocate all available memory.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MemoryGauge } from '../../../runtime/fleets/admission/memory.ts';
import { harness } from '../../support/fleets/harness.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const MB = 1024 * 1024;
const NO_STEPS = { commit: async () => {}, log: () => {} };

/** Keeps what it allocates. */
const HUNGRY = `
const kept = [];
export default { async fetch(request) {
  const { pathname, searchParams } = new URL(request.url);
  const mb = Number(searchParams.get('mb'));
  if (pathname === '/buffers') for (let got = 0; got < mb; got += 8) {
    kept.push(new Uint8Array(8 << 20).fill(1));
    await scheduler.wait(1);
  }
  if (pathname === '/heap') for (let got = 0; got < mb * 1024; got++) kept.push(Array.from({ length: 128 }, (_, i) => got + i + 0.5));
  if (pathname === '/garbage') for (let got = 0; got < mb * 1024; got++) Array.from({ length: 128 }, (_, i) => got + i + 0.5);
  if (pathname === '/one') kept.push(new Uint8Array(mb << 20).fill(1));
  return new Response('ok');
} }`;

/** Makes `gauge` check every 20 ms until the test ends. */
function watching(t: TestContext, gauge: MemoryGauge): void {
  const look = setInterval(() => void gauge.sample(), 20);
  t.after(() => clearInterval(look));
}

for (const [where, path] of [
  ['its buffers', '/buffers?mb=4000'],
  ['its heap', '/heap?mb=4000'],
]) {
  test(`an app whose memory grows endlessly, in ${where}, is restarted and says why`, async (t) => {
    const memory = new MemoryGauge(0, 128);
    const app = harness(t, { memoryMb: 128, memory });
    watching(t, memory);
    await app.fleet.swap(await app.release(1, { code: HUNGRY, migrations: {} }), NO_STEPS);
    const asked = app.ask(path!).catch(() => 'cut');
    await app.until(() => app.fleet.lastError !== null);
    assert.match(app.fleet.lastError!, /RUNNER_CELL_MAX_MB \(128\) allows/);
    // The app's log has the reason too.
    await app.until(() => app.lines.some((line) => line.includes('RUNNER_CELL_MAX_MB')));
    assert.equal(await asked, 'cut');
    assert.deepEqual(await app.ask('/'), { status: 200, text: 'ok' });
    assert.match(app.fleet.lastError!, /RUNNER_CELL_MAX_MB \(128\) allows/, 'its owner can still read why');
    await app.fleet.swap(await app.release(2), NO_STEPS);
    assert.equal(app.fleet.lastError, null);
  });
}

test('an endlessly growing heap ends its own process; garbage does not', async (t) => {
  const app = harness(t, { memoryMb: 128 });
  await app.fleet.swap(await app.release(1, { code: HUNGRY, migrations: {} }), NO_STEPS);
  const { pid } = app.fleet;
  assert.equal((await app.ask('/garbage?mb=300')).status, 200);
  assert.equal(app.fleet.pid, pid);
  const asked = app.ask('/heap?mb=4000').catch(() => 'cut');
  await app.until(() => app.fleet.lastError !== null);
  assert.equal(app.fleet.lastError, 'the app needed more memory than RUNNER_CELL_MAX_MB (128) allows');
  assert.equal(await asked, 'cut');
});

test('one allocation that is too large fails, and the process lives', async (t) => {
  const app = harness(t, { memoryMb: 128 });
  await app.fleet.swap(await app.release(1, { code: HUNGRY, migrations: {} }), NO_STEPS);
  const { pid } = app.fleet;
  assert.equal((await app.ask('/one?mb=2000')).status, 500);
  assert.equal((await app.ask('/')).status, 200);
  assert.equal(app.fleet.pid, pid);
});

test('when memory is short, an app above its share is ended in favour of a small one', async (t) => {
  const root = temporaryDirectory(t);
  const use = (mb: number) => {
    const files = { 'memory.max': 4096 * MB, 'memory.current': mb * MB, 'memory.stat': 'inactive_file 0' };
    for (const [name, content] of Object.entries(files)) {
      const path = join(root, 'sys/fs/cgroup', name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, `${content}\n`);
    }
  };
  use(500);
  const memory = new MemoryGauge(1000, 512, root);
  const options = { memory, idleMs: 0 };
  const [hungry, modest, late] = [harness(t, options), harness(t, options), harness(t, options)];
  await hungry.fleet.swap(await hungry.release(1, { code: HUNGRY, migrations: {} }), NO_STEPS);
  await hungry.ask('/buffers?mb=240');
  for (const app of [modest, late]) app.fleet.restore('idle', await app.release(1), { dueAt: null });

  use(1100);
  await memory.sample();
  assert.equal(memory.over, true);
  assert.equal((await modest.ask('/version')).status, 200, 'a modest app starts');
  await hungry.until(() => hungry.fleet.pid === null && hungry.fleet.state === 'idle');
  assert.match(hungry.fleet.lastError!, /short of memory .* was ended for other apps/);
  assert.equal((await hungry.ask('/')).status, 503, 'the hungry one is refused while memory is short');
  assert.equal((await modest.ask('/version')).status, 200);
  assert.equal((await late.ask('/version')).status, 503, 'nobody is left who could make room');

  use(900);
  await memory.sample();
  assert.equal((await hungry.ask('/')).status, 200);
});
