// Workflows of an app whose data is in the bucket: real workerd with its cluster.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../runtime/threads/until.ts';
import { clusterIn } from '../../support/bucket/clusters.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { harness } from '../../support/fleets/harness.ts';
import { makeRelease } from '../../support/fleets/release.ts';

/** Records its end in D1, because reading an instance's status would make the Workflow run again. */
const NAPPING = `
import { WorkflowEntrypoint } from 'cloudflare:workers';
export class Flow extends WorkflowEntrypoint {
  async run(event, step) {
    await step.do('begin', async () => { console.log('begun'); });
    await step.sleep('nap', 3_000);
    await step.do('end', async () => { await this.env.DB.prepare('INSERT INTO ended VALUES (1)').run(); });
  }
}
export default {
  async fetch(request, { DB, FLOW }) {
    if (new URL(request.url).pathname === '/ended') return Response.json(await DB.prepare('SELECT count(*) AS n FROM ended').first('n'));
    await FLOW.create();
    return new Response('created');
  },
};`;

test('a Workflow whose write to the bucket fails goes on within a minute, in the same process', async (t) => {
  await using store = await new MemoryStore().start();
  const { fleet, root, ask, lines, until: seen } = harness(t, { cluster: clusterIn(store) });
  const databases = [
    { binding: 'DB', storageId: 'main', migrations: [{ name: '1.sql', path: 'sql/1.sql' }] },
  ];
  const workflows = [{ binding: 'FLOW', name: 'flow', className: 'Flow' }];
  const sql = { 'sql/1.sql': 'CREATE TABLE ended (n)' };
  await fleet.start(await makeRelease(`${root}/release`, NAPPING, { databases, workflows }, sql));
  const { pid } = fleet;
  assert.equal((await ask('/create')).status, 200);
  await seen(() => lines.some((line) => line.includes('begun')));
  // The first alarm is for the step under way, the second (`a2`) for the end of the nap.
  const naps = async () => [...store.objects.keys()].some((key) => /\/alarms\/.*\/a2$/.test(key));
  assert.ok(await until(naps, { everyMs: 20, timeoutMs: 30_000 }), 'the nap has an alarm');
  store.refuses = (key) => key.includes('/do/');
  await seen(() => lines.some((line) => line.includes('commit failed')));
  store.refuses = () => false;
  const isEnded = () =>
    ask('/ended').then(
      ({ text }) => text === '1',
      () => false,
    );
  assert.ok(await until(isEnded, { everyMs: 500, timeoutMs: 60_000 }), 'the instance ends');
  assert.equal(fleet.pid, pid);
});
