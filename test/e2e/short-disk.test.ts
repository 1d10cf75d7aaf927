// A disk below its free-space floor: operations that need space are refused with the reason, others continue.
// Runs as root too.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';
import { SmallDisk } from '../support/small-disk.ts';

const FLOOR_MB = 40;
const SETTINGS = { RUNNER_BUILD_MAX_MB: '16', RUNNER_DISK_FLOOR_MB: String(FLOOR_MB) };
const MB = Buffer.alloc(2 ** 20, 'x');

const ready = async (cellar: Cellar) => (await cellar.call('GET', '/ready')).body.failing ?? [];

test('below the floor writes are refused with the reason, apps answer, and all works again with free space', async (t) => {
  const cellar = new Cellar({ ...SETTINGS, RUNNER_APP_MAX_MB: '8' });
  await using _ = cellar;
  using disk = SmallDisk.mount(cellar.data, 200);
  if (disk === null) return t.skip(SmallDisk.why);
  await cellar.start();
  const id = await cellar.deploy('hello', 'hello');
  const keeper = await cellar.deploy('keeper', 'bucket');
  const put = async (megabytes: number) => {
    const response = await fetch(`${cellar.api}/v1/apps/${keeper}/storage/r2/files/raw?key=x`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${cellar.token}` },
      body: Buffer.concat(Array(megabytes).fill(MB)),
    });
    return { status: response.status, text: await response.text() };
  };
  const tooMuch = await put(9);
  assert.equal(tooMuch.status, 403, tooMuch.text);
  assert.match(tooMuch.text, /\(RUNNER_APP_MAX_MB\)\.".*quota_exceeded/);
  assert.equal((await put(1)).status, 200);
  await eventually(() => existsSync(join(cellar.data, 'ballast')), 'the disk reserve is there');
  assert.deepEqual(await ready(cellar), []);

  disk.fill(FLOOR_MB / 2);
  await eventually(async () => (await ready(cellar)).includes('disk'), '/ready names the disk');
  assert.equal((await cellar.get('hello')).status, 200);
  const work = await cellar.checkout('site');
  const pushed = await cellar.push(work, 'hello', '--force');
  assert.notEqual(pushed.code, 0);
  assert.match(pushed.stderr, /the disk of this machine has \d+ MiB free, and 40 MiB must stay free/i);
  assert.match(pushed.stderr, /RUNNER_DISK_FLOOR_MB.*try again/);
  const fetched = await cellar.git(work, 'fetch', cellar.remote('hello'), 'main');
  assert.equal(fetched.code, 0, fetched.stderr);
  const commit = {
    message: 'more',
    author_email: 'ada@example.com',
    files: [{ path: 'more.txt', content: 'more' }],
  };
  const refused = await cellar.call('POST', `/v1/apps/${id}/source/commit`, commit);
  assert.equal(refused.status, 507);
  assert.equal(refused.body.code, 'insufficient_storage');
  assert.match(refused.body.detail, /^The disk of this machine has \d+ MiB free/);
  // The bucket service checks the disk once a second.
  let refusedPut = { status: 0, text: '' };
  await eventually(async () => {
    refusedPut = await put(1);
    return refusedPut.status === 507;
  }, 'objects are refused, too');
  assert.match(refusedPut.text, /\(RUNNER_DISK_FLOOR_MB is 40\)\.".*insufficient_storage/);

  disk.clear();
  await eventually(async () => (await ready(cellar)).length === 0, '/ready answers 200 again');
  const again = await cellar.push(work, 'hello', '--force');
  assert.match(again.stderr, /serves this push/);
});

test('a push that failed for lack of disk space is deployed by itself when there is space', async (t) => {
  const cellar = new Cellar({ ...SETTINGS, RUNNER_FLEET_DEPLOY_POLL_S: '1' });
  await using _ = cellar;
  using disk = SmallDisk.mount(cellar.data, 200);
  if (disk === null) return t.skip(SmallDisk.why);
  await cellar.start();
  const ids: Record<string, string> = {};
  for (const slug of ['hello', 'missed']) ids[slug] = await cellar.create(slug);
  const work = await cellar.checkout('hello');
  const deploys = async (slug: string): Promise<string[]> => {
    const { body } = await cellar.call('GET', `/v1/apps/${ids[slug]}/deploys`);
    return body.items.map(({ status }: { status: string }) => status);
  };
  disk.fill(FLOOR_MB + 8);
  const { stderr } = await cellar.push(work, 'hello');
  assert.match(stderr, /deploy failed: the disk of this machine has \d+ MiB free. A build may need 16/);
  // The missed push fails too. The poll that finds it has also checked the other app.
  await cellar.git(work, 'push', join(cellar.data, 'repos', `${ids.missed}.git`), 'HEAD:main');
  await eventually(async () => (await deploys('missed')).join() === 'failed', 'a look has come by');
  assert.deepEqual(await deploys('hello'), ['failed'], 'nothing is tried again without room');
  disk.clear();
  for (const slug of Object.keys(ids)) {
    await eventually(async () => (await deploys(slug)).join() === 'live,failed', `${slug} is live`);
    assert.equal((await cellar.get(slug)).status, 200);
  }
});

test('below the floor the host deletes the oldest trash first, then build caches, and no more than needed', async (t) => {
  const cellar = new Cellar(SETTINGS);
  await using _ = cellar;
  using disk = SmallDisk.mount(cellar.data, 200);
  if (disk === null) return t.skip(SmallDisk.why);
  await cellar.start();
  const put = (path: string, megabytes: number) => {
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, 'file'), Buffer.concat(Array(megabytes).fill(MB)));
  };
  const trash = join(cellar.data, 'trash');
  const recent = `aaaa-${Date.now()}`;
  put(join(trash, recent), 20);
  put(join(trash, `bbbb-${Date.now() - 60_000}`), 20);
  const cache = join(cellar.data, 'caches', '0000000000000000');
  put(cache, 10);
  disk.fill(FLOOR_MB - 1);
  await eventually(() => readdirSync(trash).join() === recent, 'the older trash goes');
  await eventually(async () => (await ready(cellar)).length === 0, 'there is room again');
  assert.ok(existsSync(cache), 'the cache stays');
  disk.fill(FLOOR_MB - 21);
  await eventually(() => readdirSync(trash).length === 0, 'the other trash goes');
  await eventually(() => !existsSync(cache), 'the cache goes after the trash');
});

test('writes of the control plane on a full disk are refused with 507, reads are answered, and it is not restarted', async (t) => {
  const cellar = new Cellar(SETTINGS);
  await using _ = cellar;
  using disk = SmallDisk.mount(cellar.data, 200);
  if (disk === null) return t.skip(SmallDisk.why);
  await cellar.start();
  const id = await cellar.create('there');
  const create = (slug: string) => cellar.call('POST', '/v1/apps', { slug });
  await eventually(() => existsSync(join(cellar.data, 'ballast')), 'the disk reserve is there');
  disk.fill();
  // The host frees the disk reserve, and the next fill takes that space too.
  await eventually(() => !existsSync(join(cellar.data, 'ballast')), 'the disk reserve is freed');
  // Space that the database already owns may take a write or two.
  let made = 0;
  let refused = { status: 0, body: { code: '' } };
  await eventually(async () => {
    disk.fill();
    refused = await create(`made-${made++}`);
    return refused.status !== 201;
  }, 'there is no room left');
  assert.deepEqual(
    [refused.status, refused.body.code],
    [507, 'insufficient_storage'],
    JSON.stringify(refused),
  );
  assert.equal((await cellar.call('GET', '/v1/apps')).status, 200);
  const rpc = await cellar.call('POST', '/rpc', {
    ...{ jsonrpc: '2.0', id: 1, method: 'apps.create' },
    params: { slug: 'first' },
  });
  assert.equal(rpc.body.error.data.code, 'insufficient_storage');
  // A failed write aborts the database's Durable Object with its concurrent reads; the API must still answer them.
  const headers = { authorization: `Bearer ${cellar.key}` };
  const read = async () => (await fetch(`${cellar.api}/v1/apps/${id}`, { headers })).status;
  for (let round = 0; round < 5; round++) {
    const change = { name: `A${round}`, value: 'x'.repeat(4_000) };
    const [written, ...found] = await Promise.all([
      cellar.call('POST', `/v1/apps/${id}/env`, change),
      ...Array.from({ length: 10 }, read),
    ]);
    assert.equal(written.status, 507);
    assert.deepEqual([...new Set(found)], [200]);
  }
  disk.clear();
  assert.equal((await create('second')).status, 201);
  assert.doesNotMatch(cellar.output, /was started again|does not start/);
  await eventually(() => existsSync(join(cellar.data, 'ballast')), 'the disk reserve is made again');
});
