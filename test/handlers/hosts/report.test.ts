// The answers to reports of hosts contain routes from the database: what happens while the database is slow.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scheduler } from 'node:timers/promises';
import { loadControl, MemoryD1 } from '../../support/handlers/control-in-process.ts';
import { reportOf } from '../../support/handlers/hosts.ts';

test('a slow database is not asked for routes again before it has answered, or 30 s are over', async (t) => {
  // workerd has `scheduler` as a global, and Node does not.
  Object.assign(globalThis, { scheduler });
  const { hostReport, migrate } = await loadControl();
  const database = new MemoryD1();
  t.after(() => database.close());
  await migrate(database.through(async (run) => run()));
  let reads = 0;
  let answered = Promise.withResolvers<void>();
  const env = { HOSTS: { getByName: () => ({ report: async () => ({ ok: true, value: [] }) }) } };
  const db = database.through(async (run) => {
    reads++;
    await answered.promise;
    return run();
  });
  const report = async (revision: number) => {
    const request = new Request('http://control/', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(reportOf('a', { revision })),
    });
    return (await hostReport(request, { env, db, waitUntil: () => {} })).json();
  };
  const unknown = { hosts: [], revision: 1, whole: false, routes: [], deleted: [] };
  assert.deepEqual(await report(1), unknown);
  assert.deepEqual(await report(1), unknown);
  await assert.rejects(report(0), { code: 'host_unavailable' });
  assert.equal(reads, 1);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 31_000 });
  const all = report(0);
  assert.deepEqual(await report(1), unknown);
  assert.equal(reads, 2);
  answered.resolve();
  assert.equal(((await all) as { whole: boolean }).whole, true);
  answered = Promise.withResolvers();
  answered.resolve();
  await report(1);
  await report(1);
  assert.equal(reads, 4, 'it is asked each time again');
});
