// Previews of branches: separate address and storage, promotion, deletion, expiry after a week, and killed hosts.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Database from 'better-sqlite3';
import { Cellar, COUNTER_CLASS, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());
const rpc = rpcOf(cellar);

const CONFIG = `${COUNTER_CONFIG}
[triggers]
crons = ["0 3 * * *"]
`;
/** A Worker that returns its branch's text, its count of requests, and its secret. */
const worker = (text: string) => `${COUNTER_CLASS}
export default {
  async fetch(request, env) {
    console.log('asked ${text}');
    const n = await env.COUNTER.getByName('one').add();
    return new Response('${text} ' + n + ' ' + env.TOKEN);
  },
  scheduled() {},
};`;

/** Deploys an app with previews on, and returns its working copy. */
async function deployed(slug: string): Promise<{ id: string; work: string }> {
  const id = await cellar.create(slug);
  const work = await cellar.checkout('hello');
  write(work, 'main');
  writeFileSync(join(work, 'wrangler.toml'), CONFIG);
  await cellar.commit(work, 'main');
  assert.match((await cellar.push(work, slug)).stderr, /serves this push/);
  await rpc('previews.set', { id, branches: true });
  return { id, work };
}

test('a preview has the overrides of previews, and not those of its app', async () => {
  const { id, work } = await deployed('overrides');
  await rpc('vars.set', { id, name: 'TOKEN', value: 'real' });
  await change(work, 'overrides', 'branch', 'draft');
  assert.equal((await cellar.get('overrides')).text, 'main 1 real');
  const [preview] = (await rpc('previews.list', { id })).items;
  const address = `${preview.name}--overrides`;
  assert.equal((await cellar.get(address)).text, 'draft 1 undefined');
  await rpc('previews.set', { id, vars: { TOKEN: 'test' } });
  await eventually(async () => (await cellar.get(address)).text.endsWith('test'), 'it has the override');
  assert.equal((await cellar.get('overrides')).text, 'main 2 real');
});

const write = (work: string, text: string) => writeFileSync(join(work, 'index.js'), worker(text));
const pushTo = (work: string, slug: string, ...branches: string[]) =>
  cellar.git(work, 'push', cellar.remote(slug), ...branches.map((branch) => `HEAD:refs/heads/${branch}`));

/** Pushes another text to a branch. Returns git's output. */
async function change(work: string, slug: string, branch: string, text: string): Promise<string> {
  write(work, text);
  await cellar.commit(work, text);
  return (await pushTo(work, slug, branch)).stderr;
}

/** Returns the ids of all apps and previews with files in the data directory. */
function kept(): Set<string> {
  const folders = ['data', 'run', 'releases', 'caches', 'buckets'].map((name) => join(cellar.data, name));
  return new Set(folders.filter((path) => existsSync(path)).flatMap((path) => readdirSync(path)));
}

const areEqual = (a: Set<string>, b: Set<string>) => a.size === b.size && [...a].every((id) => b.has(id));

/** Changes the host's database while the host is stopped. */
function whileDown<T>(change: (database: Database.Database) => T): T {
  const database = new Database(join(cellar.data, 'host.sqlite'));
  try {
    return change(database);
  } finally {
    database.close();
  }
}

test('a preview has its own storage, the secrets of its app and no crons, and is promoted and deleted', async () => {
  const { id, work } = await deployed('shop');
  const before = kept();
  await rpc('previews.set', { id, branches: false });
  assert.match(await change(work, 'shop', 'feature/Login', 'draft'), /cellar previews on/);
  await rpc('previews.set', { id, branches: true });
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'abc' });
  assert.equal((await cellar.get('shop')).text, 'main 1 abc');
  assert.equal((await cellar.get('shop')).text, 'main 2 abc');
  const pushed = await change(work, 'shop', 'feature/Login', 'draft');
  const url = `http://feature-login--shop.localhost:${cellar.edgePort}`;
  assert.ok(pushed.includes(`${url} shows this push`), pushed);
  await rpc('maintenance.set', { id, enabled: true });
  assert.equal((await cellar.get('shop')).status, 503);
  assert.equal((await cellar.get('feature-login--shop')).text, 'draft 1 abc');
  await rpc('maintenance.set', { id, enabled: false });

  const mayHaveCertificate = async (name: string) =>
    (await cellar.call('GET', `/v1/edge/tls-ask?domain=${name}.localhost`)).status === 200;
  assert.ok(await mayHaveCertificate('feature-login--shop'));
  for (const other of [
    'other--shop',
    'feature-login--other',
    'feature-login--',
    '--shop',
    'a--feature-login--shop',
  ])
    assert.ok(!(await mayHaveCertificate(other)), other);
  const { items } = await rpc('previews.list', { id });
  assert.equal(items.length, 1);
  const [preview] = items;
  assert.deepEqual(
    { name: preview.name, url: preview.url, branch: preview.branch, status: preview.deploy.status },
    { name: 'feature-login', url, branch: 'feature/Login', status: 'live' },
  );
  const weekMs = Date.parse(preview.expires_at) - Date.now();
  assert.ok(weekMs > 6.9 * 86_400_000 && weekMs <= 7 * 86_400_000, preview.expires_at);
  const { log } = await rpc('previews.log', { id, preview: 'feature-login' });
  assert.match(log, /▸ start: the first release/);
  // The app's deploys do not include those of the preview.
  assert.equal((await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items.length, 1);
  assert.deepEqual(cronsOf(preview.deploy.id), []);

  // The preview has a separate log and separate errors.
  const lines = async (of: object) =>
    (await rpc('logs.list', { id, ...of })).items.map(({ text }: { text: string }) => text).join('\n');
  await eventually(
    async () => (await lines({ preview: 'feature-login' })).includes('asked draft'),
    'its log',
  );
  assert.doesNotMatch(await lines({ preview: 'feature-login' }), /asked main/);
  assert.doesNotMatch(await lines({}), /asked draft/);
  assert.deepEqual((await rpc('errors.list', { id, preview: 'feature-login' })).items, []);
  assert.equal((await rpc('errors.list', { id, preview: 'nobody' })).code, 'preview_not_found');

  // A second push keeps the preview's storage, and does not change the app.
  await change(work, 'shop', 'feature/Login', 'better');
  assert.equal((await cellar.get('feature-login--shop')).text, 'better 2 abc');
  assert.equal((await cellar.get('shop')).text, 'main 3 abc');
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'new' });
  await eventually(async () => (await cellar.get('feature-login--shop')).text.endsWith('new'), 'the secret');

  const promoted = await rpc('previews.promote', { id, preview: 'feature-login' });
  assert.equal(promoted.trigger, 'promote');
  await eventually(async () => (await cellar.get('shop')).text.startsWith('better'), 'the promoted release');
  const newest = async () => (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items[0];
  await eventually(async () => (await newest()).status === 'live', 'the deploy is reported');
  assert.deepEqual([(await newest()).id, (await newest()).message], [promoted.id, 'better']);
  assert.deepEqual(cronsOf(promoted.id), ['0 3 * * *']);
  // The promoted release runs on the app's storage: the preview itself has counted only two requests.
  assert.ok(Number((await cellar.get('shop')).text.split(' ')[1]) > 4);
  assert.match((await cellar.get('feature-login--shop')).text, /^better/);

  await rpc('apps.rename', { id, slug: 'store' });
  assert.match((await cellar.get('feature-login--store')).text, /^better/);
  assert.equal((await cellar.get('feature-login--shop')).status, 404);
  await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  await eventually(
    async () => (await cellar.get('feature-login--store')).status === 503,
    'it is stopped, too',
  );
  await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'running' });
  await eventually(async () => (await cellar.get('feature-login--store')).status === 200, 'it answers again');

  await rpc('previews.delete', { id, preview: 'feature-login' });
  assert.equal((await cellar.get('feature-login--store')).status, 404);
  assert.deepEqual((await rpc('previews.list', { id })).items, []);
  assert.deepEqual(kept(), before);
  assert.equal((await rpc('previews.delete', { id, preview: 'feature-login' })).code, 'preview_not_found');
});

test('a preview can start with a copy of its app’s storage, and changes only the copy', async () => {
  const { id, work } = await deployed('copied');
  writeFileSync(
    join(work, 'wrangler.toml'),
    `${COUNTER_CONFIG}
[[kv_namespaces]]
binding = "KV"
id = "notes"
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
`,
  );
  const keeper = `${COUNTER_CLASS}
export default {
  async fetch(request, env) {
    const n = await env.COUNTER.getByName('one').add();
    if (request.method === 'POST') {
      await env.KV.put('note', 'from ' + n);
      await env.FILES.put('file', 'file of ' + n);
    }
    return Response.json([n, await env.KV.get('note'), await (await env.FILES.get('file'))?.text()]);
  },
};`;
  writeFileSync(join(work, 'index.js'), keeper);
  await cellar.commit(work, 'keeper');
  assert.match((await cellar.push(work, 'copied')).stderr, /serves this push/);
  const post = async (slug: string) => JSON.parse((await cellar.get(slug, '/', { method: 'POST' })).text);
  assert.deepEqual(await post('copied'), [1, 'from 1', 'file of 1']);
  await rpc('previews.set', { id, storage: 'copy' });
  assert.deepEqual(await rpc('previews.get', { id }), { branches: true, storage: 'copy', vars: {} });
  const { stderr } = await pushTo(work, 'copied', 'same');
  assert.match(stderr, /copying the app's storage/);
  const get = async (slug: string) => JSON.parse((await cellar.get(slug)).text);
  assert.deepEqual(await get('same--copied'), [2, 'from 1', 'file of 1']);
  assert.deepEqual(await post('same--copied'), [3, 'from 3', 'file of 3']);
  assert.deepEqual(await get('copied'), [2, 'from 1', 'file of 1']);
  // A further push of the branch keeps the preview's storage.
  await cellar.commit(work, 'again');
  assert.doesNotMatch((await pushTo(work, 'copied', 'same')).stderr, /copying/);
  assert.deepEqual(await get('same--copied'), [4, 'from 3', 'file of 3']);
  // Snapshots do not include previews.
  await cellar.call('POST', '/v1/admin/snapshot');
  const { items } = await rpc('snapshots.list', {});
  assert.equal(items[0].apps, (await cellar.call('GET', '/v1/apps')).body.items.length);
  assert.ok(!existsSync(join(cellar.data, 'snapshotting', 'copied')));
});

function cronsOf(deployId: string): string[] {
  const [release] = readdirSync(join(cellar.data, 'releases'))
    .map((app) => join(cellar.data, 'releases', app, deployId, 'release.json'))
    .filter((path) => existsSync(path));
  return JSON.parse(readFileSync(release!, 'utf8')).triggers.crons;
}

test('a killed host leaves no incomplete preview, and a preview is deleted after a week', async () => {
  const { id, work } = await deployed('killed');
  const before = kept();
  await change(work, 'killed', 'over', 'over');
  await change(work, 'killed', 'gone', 'gone');
  assert.match((await cellar.get('over--killed')).text, /^over/);
  const slow = JSON.stringify({ name: 'killed', version: '1.0.0', scripts: { build: 'sleep 1' } });
  writeFileSync(join(work, 'package.json'), slow);
  const pushing = change(work, 'killed', 'cut', 'cut');
  await eventually(async () => {
    const { items } = await rpc('previews.list', { id });
    return items[0]?.name === 'cut' && items[0].deploy?.status === 'building';
  }, 'the preview is being built');
  await cellar.stop('SIGKILL');
  await pushing;
  const [over, gone] = whileDown((database) => {
    database.exec("UPDATE previews SET expires_at = 1 WHERE name = 'over'");
    const [over, gone] = ['over', 'gone'].map(
      (name) =>
        database.prepare<[string], { id: string }>('SELECT id FROM previews WHERE name = ?').get(name)!.id,
    );
    // As if the host was killed while it deleted this preview.
    database.prepare('UPDATE apps SET deleted_at = ? WHERE id = ?').run(new Date().toISOString(), gone);
    return [over!, gone!];
  });
  await cellar.start();
  await eventually(
    async () => (await cellar.get('cut--killed')).text.startsWith('cut'),
    'the cut preview serves',
  );
  await eventually(() => !kept().has(over) && !kept().has(gone), 'what the others kept is gone');
  assert.equal((await rpc('previews.list', { id })).items.length, 1);
  assert.equal((await cellar.get('over--killed')).status, 404);
  assert.equal((await cellar.get('gone--killed')).status, 404);
  assert.match((await cellar.get('killed')).text, /^main/);

  // The next start keeps this state.
  await cellar.stop();
  await cellar.start();
  assert.equal((await cellar.get('cut--killed')).text, 'cut 2 undefined');
  await cellar.git(work, 'push', cellar.remote('killed'), '--delete', 'cut');
  await eventually(async () => (await cellar.get('cut--killed')).status === 404, 'its branch was deleted');
  await eventually(() => areEqual(kept(), before), 'nothing of it is left');
  await cellar.call('DELETE', `/v1/apps/${id}`);
});

test('a push of a thousand branches makes ten previews, and hostile branch names do no harm', async () => {
  const id = await cellar.create('many');
  const work = await cellar.checkout('hello');
  assert.equal((await cellar.push(work, 'many')).code, 0);
  await rpc('previews.set', { id, branches: true });
  const odd = ['$(id)', ';id', '--upload-pack=id', 'a--b', 'xn', 'ünï/çødé', 'x'.repeat(200)];
  const names = [...odd, ...Array.from({ length: 1_000 - odd.length }, (_, at) => `b/${at}`)];
  const pushing = pushTo(work, 'many', ...names);
  const answers: number[] = [];
  const asking = eventually(async () => {
    answers.push((await cellar.get('many')).status);
    const { items } = await rpc('previews.list', { id });
    return items.length === 10 && items.every(({ serves }: { serves: boolean }) => serves);
  }, 'ten previews serve');
  const { code, stderr } = await pushing;
  await asking;
  assert.equal(code, 0, stderr.slice(-2_000));
  assert.match(stderr, /One push makes previews of at most 10 branches: 990 more branches got none/);
  assert.ok(answers.every((status) => status === 200));
  const { items } = await rpc('previews.list', { id });
  for (const { name, url } of items) {
    assert.match(name, /^[a-z0-9](-?[a-z0-9])+$/);
    assert.equal((await cellar.get(`${name}--many`)).status, 200, url);
  }
  // One more replaces the preview that was deployed longest ago.
  assert.match((await pushTo(work, 'many', 'one/more')).stderr, /one-more--many\S* shows this push/);
  await eventually(async () => (await rpc('previews.list', { id })).items.length === 10, 'one has gone');
  assert.equal((await rpc('previews.list', { id })).items[0].branch, 'one/more');
  const other = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const { key } = await rpc('keys.create', { account: other.id });
  for (const method of ['previews.delete', 'previews.promote', 'previews.log'])
    assert.equal((await rpc(method, { id, preview: 'one-more' }, { key })).code, 'forbidden', method);

  await cellar.call('DELETE', `/v1/apps/${id}`);
  assert.equal((await cellar.get('one-more--many')).status, 404);
});
