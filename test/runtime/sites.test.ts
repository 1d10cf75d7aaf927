// The wake request of another proxy, at the gateway of the API port.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { KnownApps } from '../../runtime/apps/known/known-apps.ts';
import { sites } from '../../runtime/apps/sites.ts';
import { Gateway, type RequestHead } from '../../runtime/edge/gateway.ts';
import { HealthChecks } from '../../runtime/edge/health-checks.ts';
import { call, until } from '../support/edge/peers.ts';
import { harness } from '../support/fleets/harness.ts';

/** A gateway with a sleeping app that does not start until `letStart` is called. `ask` sends a wake request. */
async function started(t: TestContext, holdTimeoutMs: number) {
  const { promise, resolve: letStart } = Promise.withResolvers<void>();
  // Runs before the hooks of the harness, which delete the app's files.
  t.after(async () => {
    letStart();
    await app.fleet.close();
  });
  const app = harness(t);
  app.fleet.restore('idle', await app.release(1), { dueAt: null });
  app.fleet.asleep = true;
  void app.fleet.replaceStorage(() => promise);
  const known = { wanted: { maintenance: null } };
  const backend = { site: 'control', admit: () => assert.fail('another site') };
  const { api } = sites({
    ...{ baseDomain: 'localhost', control: backend, ui: backend, hosts: null },
    apps: { get: () => known, resolve: () => app.fleet } as unknown as KnownApps,
    ...{ failing: () => [], warnings: () => [], healthChecks: new HealthChecks() },
    limits: { clientRpm: 0, gitRpm: 0, appRpm: 0 },
  });
  const asked = Promise.withResolvers<void>();
  const resolve = (head: RequestHead) => {
    asked.resolve();
    return api(head);
  };
  const gateway = new Gateway({ resolve, holdTimeoutMs });
  t.after(() => gateway.close(0));
  const port = await gateway.listen(0, '127.0.0.1');
  const ask = () => call(port, '/v1/edge/wake', { headers: { 'x-forwarded-host': 'app.localhost' } });
  return { app, gateway, letStart, ask, asked: asked.promise };
}

test('a wake request is refused after the wake timeout, and a later one is answered when the app serves', async (t) => {
  const { app, letStart, ask } = await started(t, 50);
  const late = await ask();
  assert.equal(late.status, 503);
  assert.match(late.body, /was not ready in time/);
  assert.ok(Number(late.headers['retry-after']) >= 1);
  letStart();
  await until(async () => (await ask()).status === 200, 'the app serves');
  assert.equal(app.fleet.state, 'running');
});

test('a wake request that waits at a shutdown is refused before the end of the grace period', async (t) => {
  const { gateway, ask, asked } = await started(t, 60_000);
  const answer = ask();
  await asked;
  assert.deepEqual(await gateway.drain(2_000), { cut: 0 });
  assert.match((await answer).body, /Cellar stops/);
});
