// The interface between host and control plane: each accepts what the other sends, however large or unusual.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { ENV_BYTES, ENV_VALUE_BYTES } from '../../handlers/contract/sizes.ts';
import { reloadsFor } from '../../scripts/reloads.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/processes.ts';

const cellar = new Cellar({}, undefined, true);
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

const deploys = async (id: string) => (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
const ready = async () => (await cellar.call('GET', '/ready')).body;

test('the subject and the error of a deploy are cut to whole characters', async () => {
  const id = await cellar.create('emoji');
  const work = await cellar.checkout('hello');
  const subject = `${'a'.repeat(299)}😀 and more`;
  await cellar.commit(work, subject);
  await cellar.push(work, 'emoji');
  const live = async () => (await deploys(id))[0]?.status === 'live';
  await eventually(live, 'the deploy reads live');
  assert.equal((await deploys(id))[0].message, 'a'.repeat(299));
  writeFileSync(
    join(work, 'index.js'),
    `export default { fetch() { return new Response('ok') } };
     throw new Error('${'x'.repeat(450)}${'😀'.repeat(40)}');`,
  );
  await cellar.commit(work, 'throws');
  await cellar.push(work, 'emoji');
  const failed = async () => (await deploys(id))[0].status === 'failed';
  await eventually(failed, 'the second deploy reads failed');
  assert.ok((await deploys(id))[0].error.isWellFormed());
  assert.deepEqual(await ready(), { status: 'ready' });
});

test('a push wakes its sleeping app before it builds', async () => {
  const id = await cellar.deploy('dozing', 'hello');
  const asleep = (await cellar.call('POST', `/v1/apps/${id}/sleep`)).body;
  assert.equal(asleep.status, 'sleeping');
  const script = `node -p "'begun at ' + new Date().toISOString()"`;
  const packageJson = JSON.stringify({ main: 'index.js', scripts: { build: script } });
  await cellar.deployAgain('dozing', 'hello', { 'package.json': packageJson });
  const { asleep_since, woke_at, status } = await cellar.app(id);
  assert.deepEqual([asleep_since, status], [null, 'running']);
  const [{ id: deploy }] = await deploys(id);
  const { log } = (await cellar.call('GET', `/v1/apps/${id}/deploys/${deploy}/log`)).body;
  const [, begun = ''] = /begun at (\d\S+)/.exec(log) ?? [];
  assert.ok(woke_at > asleep.asleep_since && woke_at < begun, `${woke_at} is not before ${begun}`);
});

test('an app with the largest allowed variables is stopped, started, put to sleep and renamed', async () => {
  const id = await cellar.deploy('laden', 'hello');
  const value = '\u0001'.repeat(ENV_VALUE_BYTES - 3);
  for (let n = 0; n < ENV_BYTES / ENV_VALUE_BYTES; n++) {
    const set = await cellar.call('POST', `/v1/apps/${id}/env`, { name: `V${n}`.padEnd(3, '_'), value });
    assert.equal(set.status, 201, JSON.stringify(set.body));
  }
  const over = await cellar.call('POST', `/v1/apps/${id}/env`, { name: 'ONE_MORE', value: '' });
  assert.equal(over.body.code, 'quota_exceeded');
  for (const [method, path, body] of [
    ['PATCH', '', { desired_state: 'stopped' }],
    ['PATCH', '', { desired_state: 'running' }],
    ['POST', '/sleep', undefined],
    ['POST', '/rename', { slug: 'laden-2' }],
  ] as const) {
    const { status, body: answer } = await cellar.call(method, `/v1/apps/${id}${path}`, body);
    assert.equal(status, 200, JSON.stringify(answer));
  }
  assert.equal((await cellar.get('laden-2')).status, 200);
});

test('handlers and UI are reloaded while they are used, and apps keep running', async () => {
  const id = await cellar.deploy('runs-on', 'hello');
  const [before] = cells(id);
  let answers = 0;
  let asking = true;
  const asked = (async () => {
    for (; asking; answers++) {
      assert.equal((await cellar.get('runs-on')).status, 200);
      await sleep(20);
    }
  })();
  cellar.reload('control');
  // The call waits until the new handlers are loaded.
  await cellar.waitFor(/loaded again part=control ms=\d+/);
  assert.equal((await cellar.call('GET', '/v1/apps/runs-on')).body.id, id);
  cellar.reload('ui');
  await cellar.waitFor(/loaded again part=ui/);
  asking = false;
  await asked;
  assert.ok(answers > 0);
  assert.deepEqual(cells(id), [before]);
  assert.deepEqual(reloadsFor(['handlers/services/apps/apps.ts', 'ui/main.tsx', 'docs/dev.md']), [
    'control',
    'ui',
  ]);
  assert.deepEqual(reloadsFor(['handlers/contract/apps/apps.ts', 'runtime/host.ts']), ['host']);
  assert.deepEqual(reloadsFor(['test/e2e/planes.test.ts', 'README.md']), []);
});

test('a fact that the control plane cannot apply stays in the outbox, shows in /ready, and does not block other apps', async () => {
  const id = await cellar.create('refused');
  const fact = { type: 'deploy', deploy: { app_id: id, id: 'without-anything-else' } };
  await cellar.stop();
  const database = new Database(join(cellar.data, 'host.sqlite'));
  const insert = database.prepare("INSERT INTO outbox (at, event) VALUES ('2026-01-01T00:00:00.000Z', ?)");
  const { lastInsertRowid } = insert.run(JSON.stringify(fact));
  database.close();
  await cellar.start();
  const other = await cellar.deploy('not-held-up', 'hello');
  const isLive = async () => (await deploys(other))[0]?.status === 'live';
  await eventually(isLive, 'the facts of another app are applied');
  await eventually(async () => (await ready()).failing?.join() === 'outbox', '/ready names the outbox');
  await cellar.stop();
  const kept = new Database(join(cellar.data, 'host.sqlite'), { readonly: true });
  const row = kept.prepare('SELECT event FROM outbox WHERE seq = ?').get(lastInsertRowid);
  kept.close();
  assert.deepEqual(row, { event: JSON.stringify(fact) });
});
