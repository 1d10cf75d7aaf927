// Pushes that git accepted and that were not deployed, for example because the host was killed in between.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';

const worker = (text: string) => `export default { fetch: () => new Response('${text}') };\n`;

/** Pushes a commit into the app's repository without notifying the host. */
async function pushUnseen(cellar: Cellar, id: string, work: string, text: string): Promise<string> {
  writeFileSync(join(work, 'index.js'), worker(text));
  await cellar.commit(work, text);
  const { code, stderr } = await cellar.git(
    work,
    'push',
    join(cellar.data, 'repos', `${id}.git`),
    'HEAD:main',
  );
  assert.equal(code, 0, stderr);
  return (await cellar.git(work, 'rev-parse', 'HEAD')).stdout.trim();
}

const deploysOf = async (cellar: Cellar, id: string) =>
  (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items as {
    id: string;
    sha: string;
    trigger: string;
    finished_at: string | null;
  }[];

test('a missed push is deployed once, at the next start or poll, and a poll does not undo a rollback', async () => {
  await using cellar = await new Cellar({ RUNNER_FLEET_DEPLOY_POLL_S: '1' }).start();
  const id = await cellar.create('missed');
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), worker('one'));
  await cellar.commit(work, 'one');
  await cellar.push(work, 'missed');
  const [first] = await deploysOf(cellar, id);

  await cellar.stop('SIGKILL');
  const two = await pushUnseen(cellar, id, work, 'two');
  await cellar.start();
  await eventually(async () => (await cellar.get('missed')).text === 'two', 'the missed push is served');
  const [found] = await deploysOf(cellar, id);
  assert.deepEqual([found!.sha, found!.trigger], [two, 'push']);

  await pushUnseen(cellar, id, work, 'three');
  await eventually(async () => (await cellar.get('missed')).text === 'three', 'the next look finds it');

  const back = await cellar.call('POST', `/v1/apps/${id}/rollback`, { deploy_id: first!.id });
  assert.equal(back.status, 202);
  await eventually(async () => (await cellar.get('missed')).text === 'one', 'the rollback is served');
  // A poll that deploys the newer app has checked this app before.
  const probe = await cellar.create('probe');
  await pushUnseen(cellar, probe, work, 'probe');
  await eventually(async () => (await deploysOf(cellar, probe)).length > 0, 'another look');
  const all = await deploysOf(cellar, id);
  assert.deepEqual(
    all.map(({ trigger }) => trigger),
    ['rollback', 'push', 'push', 'push'],
  );
});
