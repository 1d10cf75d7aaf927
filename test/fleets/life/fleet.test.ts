import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertGone, harness } from '../../support/fleets/harness.ts';

test('a never deployed app answers 404, a stopped one 503, and neither has a process', async (t) => {
  const { fleet, release } = harness(t);
  const refused = () => {
    const admission = fleet.admit();
    return admission.kind === 'refuse' && [admission.status, admission.code, admission.retryAfterS];
  };
  assert.deepEqual(
    [fleet.state, fleet.liveDeployId, refused()],
    ['none', null, [404, 'never_deployed', undefined]],
  );
  await fleet.stop();
  assert.equal(fleet.state, 'none');
  await fleet.stop(await release(1));
  assert.deepEqual(
    [fleet.state, fleet.liveDeployId, refused()],
    ['stopped', 'release-1', [503, 'app_unavailable', 60]],
  );
  assert.deepEqual([fleet.pid, await fleet.healthy()], [null, false]);
});

test('an app starts, serves, stops with its process, and starts again with its data', async (t) => {
  const { fleet, release, ask, states } = harness(t);
  const first = await release(1);
  const started = fleet.start(first);
  const held = ask('/');
  assert.equal((await held).text, '{"version":1,"count":1,"rows":1}');
  await started;
  assert.equal(await fleet.healthy(), true);
  const { pid } = fleet;
  await fleet.start(first);
  assert.equal(fleet.pid, pid, 'a second start of the same release changes nothing');
  await fleet.stop();
  assertGone(pid);
  await fleet.start(first);
  assert.equal((await ask('/')).text, '{"version":1,"count":2,"rows":2}');
  assert.deepEqual(
    states.map(([state]) => state),
    ['starting', 'running', 'stopped', 'starting', 'running'],
  );
});

test('a stop lets requests in flight finish and refuses new ones', async (t) => {
  const { fleet, release, ask } = harness(t);
  await fleet.start(await release(1));
  const slow = ask('/slow');
  const stopped = fleet.stop();
  await Promise.resolve();
  assert.equal((await ask('/')).status, 503);
  assert.equal((await slow).status, 200);
  const started = fleet.start(await release(1));
  const held = ask('/version');
  await Promise.all([stopped, started]);
  assert.equal((await held).text, '1', 'a start that waits for the stop makes requests wait too');
});

test('a killed process is restarted, and requests wait for it', async (t) => {
  const { fleet, release, ask, until, states, lines } = harness(t);
  await fleet.start(await release(1));
  const { pid } = fleet;
  process.kill(pid!, 'SIGKILL');
  await until(() => fleet.state === 'starting');
  assert.equal((await ask('/')).text, '{"version":1,"count":1,"rows":1}');
  assert.notEqual(fleet.pid, pid);
  assert.equal(states.find(([, error]) => error)?.[1], 'workerd was ended by SIGKILL');
  assert.equal(fleet.lastError, null);
  assert.ok(lines.includes('restart in 100 ms: workerd was ended by SIGKILL'));
});

test('a process that keeps ending is a crash loop: requests are refused with the reason, and it is retried later', async (t) => {
  const { fleet, release, ask, until } = harness(t);
  const code = `export default { fetch() { console.log('the last words'); return new Response('') } }`;
  await fleet.start(await release(1, { code, migrations: {} }));
  for (let exits = 1; exits <= 5; exits++) {
    await until(() => fleet.state === 'running');
    await ask('/');
    process.kill(fleet.pid!, 'SIGKILL');
    await until(() => fleet.state !== 'running');
  }
  assert.equal(fleet.state, 'crashed');
  assert.equal(fleet.lastError, 'workerd was ended by SIGKILL; its last lines:\nthe last words');
  const admission = fleet.admit();
  assert.ok(admission.kind === 'refuse' && admission.status === 503);
  assert.ok(admission.retryAfterS! > 0 && admission.retryAfterS! <= 5);
  await fleet.start(await release(1, { code, migrations: {} }));
  assert.equal((await ask('/')).status, 200, 'a start that is asked for does not wait');
});

test('a release that does not start counts as crashed at once, and the start reports why', async (t) => {
  const { fleet, release, ask } = harness(t);
  const broken = await release(1, { code: 'throw new Error("no"); export default {}', migrations: {} });
  const started = fleet.start(broken);
  const held = ask('/');
  const message = 'Uncaught Error: no at app.js:1:7';
  await assert.rejects(started, { message });
  assert.deepEqual([fleet.state, fleet.lastError, (await held).status], ['crashed', message, 503]);
  await fleet.stop();
  assert.equal(fleet.state, 'stopped');
});

test('closing the fleet kills an endless loop', async (t) => {
  const { fleet, release, ask } = harness(t);
  await fleet.start(await release(1));
  const { pid } = fleet;
  const looping = ask('/loop');
  looping.catch(() => {});
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const closed = fleet.close();
  while (
    (await Promise.race([closed.then(() => true), new Promise((resolve) => setImmediate(resolve))])) !== true
  ) {
    t.mock.timers.tick(500);
  }
  t.mock.timers.reset();
  assertGone(pid);
  await assert.rejects(looping);
  await assert.rejects(fleet.start(await release(1)), /the host is stopping/);
});

test('closing the fleet cancels a start', async (t) => {
  const { fleet, release } = harness(t);
  const started = fleet.start(await release(1, { code: 'for (;;); export default {}', migrations: {} }));
  setTimeout(() => fleet.close(), 50);
  await assert.rejects(started, /the host is stopping/);
  await fleet.close();
  assert.equal(fleet.state, 'stopped');
});
