// The audit log of a real Cellar, whose gateway ends a request of the control plane when its client disconnects.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';

const cellar = new Cellar({ RUNNER_MAX_APPS_PER_USER: '100' });
const rpc = rpcOf(cellar);
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

test('deletions whose clients disconnect before the answer are in the audit log', async (t) => {
  const ids: string[] = [];
  for (let i = 0; i < 12; i++) ids.push(await cellar.create(`left-${i}`));
  // The clients disconnect at different moments of the deletion.
  for (const [i, id] of ids.entries()) {
    const headers = { authorization: `Bearer ${cellar.token}` };
    const signal = AbortSignal.timeout(Math.round(5 * 1.6 ** i));
    await fetch(`${cellar.api}/v1/apps/${id}`, { method: 'DELETE', headers, signal }).catch(() => null);
  }
  const isGone = async (id: string) => (await cellar.call('GET', `/v1/apps/${id}`)).status === 404;
  const logged = async () => {
    const { items } = await rpc('audit.list', { limit: 100 });
    return items
      .filter(({ operation }: { operation: string }) => operation === 'apps.delete')
      .map(({ app }: { app: { id: string } }) => app.id);
  };
  let gone: string[] = [];
  await eventually(async () => {
    const areGone = await Promise.all(ids.map(isGone));
    gone = ids.filter((_, i) => areGone[i]);
    const entries: string[] = await logged();
    return gone.every((id) => entries.includes(id));
  }, 'each deletion has an entry');
  t.diagnostic(`${gone.length} of ${ids.length} were deleted`);
  assert.ok(gone.length > 0);
});
