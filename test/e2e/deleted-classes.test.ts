// The data of a deleted Durable Object class is removed only when the deploy is live, and after a snapshot.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { COUNTER_CLASS, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { eventually } from '../support/processes.ts';

const cellar = sharedCellar('storage');

const COUNTING = `${COUNTER_CLASS}
export default { fetch: async (request, env) => Response.json(await env.COUNTER.getByName('one').add()) };`;
const PLAIN = "export default { fetch: () => new Response('no class') };";
const DELETED = `name = "counter"
main = "index.js"
compatibility_date = "2026-10-01"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Counter"]
[[migrations]]
tag = "v2"
deleted_classes = ["Counter"]
`;

async function push(slug: string, code: string, config: string): Promise<string> {
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), code);
  writeFileSync(join(work, 'wrangler.toml'), config);
  await cellar.commit(work, 'changed');
  return (await cellar.push(work, slug, '--force')).stderr;
}

/** Waits until the log of the app's last deploy matches, and returns it. */
async function logWith(id: string, expected: RegExp): Promise<string> {
  const { body } = await cellar.call('GET', `/v1/apps/${id}/deploys`);
  const read = async () =>
    JSON.stringify((await cellar.call('GET', `/v1/apps/${id}/deploys/${body.items[0].id}/log`)).body);
  await eventually(async () => expected.test(await read()), 'the log says what became of the data');
  return read();
}

async function rpc(method: string, params: object) {
  const { body } = await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
  assert.ok(body.result, JSON.stringify(body));
  return body.result;
}

test('the data of a deleted class goes to the trash, and the log says so; a failed deploy moves nothing', async () => {
  const id = await cellar.create('counter');
  assert.match(await push('counter', COUNTING, COUNTER_CONFIG), /serves this push/);
  assert.equal((await cellar.get('counter')).text, '1');
  const kept = () => readdirSync(join(cellar.data, 'data', id, 'do'));
  const trash = () => (existsSync(join(cellar.data, 'trash')) ? readdirSync(join(cellar.data, 'trash')) : []);
  const [storageId] = kept() as [string];

  const failed = await push(
    'counter',
    "throw new Error('does not load');\nexport default { fetch() {} };",
    DELETED,
  );
  assert.match(failed, /deploy failed/);
  assert.deepEqual([kept(), trash().filter((name) => name.startsWith(id))], [[storageId], []]);
  assert.equal((await cellar.get('counter')).text, '2');

  const said = await push('counter', PLAIN, DELETED);
  assert.match(
    said,
    /class Counter is deleted: a snapshot of its objects is taken now, then their data lies in/,
  );
  const ended = await logWith(id, /data of deleted classes/);
  const [, key] = /\(Counter\): snapshot (\S+) has it; the data lies in Cellar's trash for 7 days/.exec(
    ended,
  )!;
  assert.deepEqual(kept(), []);
  const [place] = trash().filter((name) => name.startsWith(id)) as [string];
  assert.deepEqual(readdirSync(join(cellar.data, 'trash', place)), [storageId]);
  assert.doesNotMatch(await push('counter', PLAIN, DELETED), /is deleted/);

  // After a rollback of the code the class is empty, and data that it stores then stays.
  const { body } = await cellar.call('GET', `/v1/apps/${id}/deploys`);
  const first = body.items.at(-1).id;
  const asked = await cellar.call('POST', `/v1/apps/${id}/rollback`, { deploy_id: first });
  assert.equal(asked.status, 202, JSON.stringify(asked.body));
  await eventually(
    async () => (await cellar.app(id)).live_deploy_id === asked.body.id,
    'the rollback serves',
  );
  assert.equal((await cellar.get('counter')).text, '1');
  assert.deepEqual(kept(), [storageId]);

  const listed = await rpc('snapshots.list', {});
  assert.deepEqual(
    listed.items.map((item: { key: string; why: string }) => [item.key, item.why]),
    [[key, 'before deleted classes of counter']],
  );
  await rpc('admin.restore', { snapshot: key, app: id });
  assert.equal((await cellar.get('counter')).text, '3');
});

test('without a snapshot the data goes to the trash too, and the log says so', async () => {
  const id = await cellar.create('full');
  await push('full', COUNTING, COUNTER_CONFIG);
  assert.equal((await cellar.get('full')).text, '1');
  const snapshots = join(cellar.data, 'snapshots');
  rmSync(snapshots, { recursive: true, force: true });
  writeFileSync(snapshots, 'no directory');
  assert.match(await push('full', PLAIN, DELETED), /serves this push/);
  const ended = await logWith(id, /data of deleted classes/);
  assert.match(
    ended,
    /\(Counter\): no snapshot could be taken .*; the data lies in Cellar's trash for 7 days/,
  );
  assert.deepEqual(readdirSync(join(cellar.data, 'data', id, 'do')), []);
  rmSync(snapshots);
});
