// The real Wrangler splits the requests of an app between two versions.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { idOfUuid, uuidOf } from '../../handlers/contract/id.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());
const rpc = rpcOf(cellar);

const CONFIG = (name: string, more = '') => `name = "${name}"
main = "index.js"
compatibility_date = "2026-10-01"
upload_source_maps = true
[version_metadata]
binding = "V"
${more}`;
const worker = (text: string) => `export default {
  async fetch({ url }, { V, TOKEN, COLOUR }) {
    if (url.endsWith('/slow')) await scheduler.wait(3000);
    if (url.endsWith('/boom')) throw new Error('boom of ${text}');
    console.log('asked ${text}');
    return Response.json({ text: '${text}', version: V.id, token: TOKEN, colour: COLOUR });
  },
};`;

interface Said {
  text: string;
  version: string;
  token?: string;
  colour?: string;
}

/** Runs Wrangler, and asserts that it succeeds. */
async function wrangler(project: Project, ...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await project.wrangler(...words);
  assert.equal(code, 0, `wrangler ${words.join(' ')}:\n${stdout}${stderr}`);
  return stdout;
}

/** Uploads a version, and returns its UUID. */
async function upload(project: Project, text: string): Promise<string> {
  project.write({ 'index.js': worker(text) });
  return /Worker Version ID: (\S+)/.exec(
    await wrangler(project, 'versions', 'upload', '--message', text),
  )![1]!;
}

async function ask(slug: string, headers: Record<string, string> = {}): Promise<Said> {
  const { status, text } = await cellar.get(slug, '/', { headers });
  assert.equal(status, 200, text);
  return JSON.parse(text);
}

/** Returns which version each of 400 keys gets. */
async function byKey(slug: string): Promise<string[]> {
  const texts: string[] = [];
  for (let key = 0; key < 400; key++)
    texts.push((await ask(slug, { 'cloudflare-workers-version-key': `user ${key}` })).text);
  return texts;
}

const count = (texts: string[], text: string) => texts.filter((each) => each === text).length;

/** Deploys an app, and uploads two more versions. */
async function withVersions(slug: string) {
  const project = new Project(cellar, { 'wrangler.toml': CONFIG(slug), 'index.js': worker('zero') });
  await wrangler(project, 'deploy');
  const one = await upload(project, 'one');
  const two = await upload(project, 'two');
  const { id } = await cellar.app((await cellar.call('GET', `/v1/apps/${slug}`)).body.id);
  return { project, one, two, id };
}

test('two uploaded versions share the requests by weight and by key, until one has all of them', async () => {
  const { project, one, two, id } = await withVersions('weighed');
  await rpc('vars.set', { id, name: 'COLOUR', value: 'blue' });
  await wrangler(project, 'versions', 'deploy', `${one}@90%`, `${two}@10%`, '--yes', '--message', 'a tenth');

  const first = await byKey('weighed');
  assert.ok(count(first, 'two') > 15 && count(first, 'two') < 75, `${count(first, 'two')} of 400`);
  assert.equal(count(first, 'one') + count(first, 'two'), 400);
  assert.deepEqual(await byKey('weighed'), first, 'a key stays with its version');
  const override = (version: string) => ({
    'cloudflare-workers-version-overrides': `other="x", weighed="${version}"`,
  });
  assert.deepEqual(await ask('weighed', override(two)), { text: 'two', version: two, colour: 'blue' });
  assert.deepEqual(await ask('weighed', override(one)), { text: 'one', version: one, colour: 'blue' });

  const status = await wrangler(project, 'deployments', 'status');
  assert.match(status, new RegExp(`\\(90%\\) ${one}[^]*\\(10%\\) ${two}`));
  assert.match(status, /a tenth/);

  // Both versions get the secrets of the app, and their logs are the app's.
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'secret' });
  await eventually(async () => (await ask('weighed', override(two))).token === 'secret', 'the second has it');
  assert.equal((await ask('weighed', override(one))).token, 'secret');
  const release = idOfUuid(two);
  const lines = async () => (await rpc('logs.list', { id, search: 'asked two' })).items;
  await eventually(async () => (await lines())[0]?.release === release, 'the log has its lines');
  const requests = async () => (await rpc('requests.list', { id })).items;
  await eventually(
    async () => (await requests()).some((each: { release: string }) => each.release === release),
    'the requests name it',
  );
  await cellar.get('weighed', '/boom', { headers: override(two) });
  await eventually(async () => {
    const [error] = (await rpc('errors.list', { id })).items;
    return error?.message.includes('boom of two') && error.last_release === release;
  }, 'its errors are the app’s');
  const [{ fingerprint }] = (await rpc('errors.list', { id })).items;
  assert.match(JSON.stringify(await rpc('errors.get', { id, fingerprint })), /index\.js:4:/);

  // A larger share moves keys in one direction only.
  await wrangler(project, 'versions', 'deploy', `${one}@50`, `${two}@50`, '--yes');
  const half = await byKey('weighed');
  assert.ok(count(half, 'two') > 140 && count(half, 'two') < 260, `${count(half, 'two')} of 400`);
  assert.ok(half.every((text, key) => text === 'two' || first[key] === 'one'));

  await wrangler(project, 'versions', 'deploy', `${two}@100`, '--yes');
  assert.equal(count(await byKey('weighed'), 'two'), 400);
  assert.match(await wrangler(project, 'deployments', 'status'), new RegExp(`\\(100%\\) ${two}`));
});

test('a sleeping app wakes only the version that is asked for', async () => {
  const { project, one, two, id } = await withVersions('asleep');
  await wrangler(project, 'versions', 'deploy', `${one}@90%`, `${two}@10%`, '--yes');
  const override = (version: string) => ({
    'cloudflare-workers-version-overrides': `asleep="${version}"`,
  });
  await rpc('apps.sleep', { id });
  assert.equal((await ask('asleep', override(two))).text, 'two');
  assert.notEqual((await rpc('apps.get', { id })).asleep_since, null);
  assert.equal((await ask('asleep', override(one))).text, 'one');
  await rpc('apps.update', { id, desired_state: 'stopped' });
  assert.equal((await cellar.get('asleep', '/', { headers: override(two) })).status, 503);
  await rpc('apps.update', { id, desired_state: 'running' });
  assert.equal((await ask('asleep', override(two))).text, 'two');
});

test('a split survives a restart of the host, and a deploy ends it', async () => {
  const { project, one, two, id } = await withVersions('kept');
  await wrangler(project, 'versions', 'deploy', `${one}@75`, `${two}@25`, '--yes');
  const before = await byKey('kept');
  await cellar.stop();
  await cellar.start();
  assert.deepEqual(await byKey('kept'), before);
  const { versions } = await rpc('split.get', { id });
  assert.deepEqual(
    versions.map(({ message, percentage }: { message: string; percentage: number }) => [message, percentage]),
    [
      ['one', 75],
      ['two', 25],
    ],
  );
  const previews: { name: string }[] = (await rpc('previews.list', { id })).items;
  assert.ok(previews.every(({ name }) => !name.startsWith('split-')));

  project.write({ 'index.js': worker('three') });
  await wrangler(project, 'deploy');
  assert.equal(count(await byKey('kept'), 'three'), 400);
  const alone = (await cellar.call('GET', '/v1/apps/kept/split')).body.versions;
  assert.deepEqual(
    alone.map(({ percentage }: { percentage: number }) => percentage),
    [100],
  );
});

test('an earlier version can be the second one, also with 0 %, and the live one gets all again', async () => {
  const { one, id } = await withVersions('back');
  const [{ version: zero }] = (await rpc('deploys.list', { id })).items;
  const set = (...versions: [string, number][]) =>
    cellar.call('POST', '/v1/apps/back/split', {
      versions: versions.map(([version, percentage]) => ({ version, percentage })),
    });
  assert.equal((await set([one, 100])).status, 200);
  const shared = await set([one, 100], [zero.id, 0]);
  assert.equal(shared.status, 200, JSON.stringify(shared.body));
  assert.equal((await ask('back')).text, 'one');
  const { version } = await ask('back', { 'cloudflare-workers-version-overrides': `back="${one}"` });
  assert.equal(version, one);
  const texts = new Set<string>();
  assert.equal((await set([one, 60], [zero.id, 40])).status, 200);
  await eventually(async () => texts.add((await ask('back')).text).size === 2, 'both answer');
  const chosen = { headers: { 'cloudflare-workers-version-overrides': `back="${uuidOf(zero.id)}"` } };
  const slow = cellar.get('back', '/slow', chosen);
  // Once the process answers a later request, the slow request has reached it, too.
  assert.equal((await ask('back', chosen.headers)).text, 'zero');
  const ended = await set([one, 100]);
  assert.equal(JSON.parse((await slow).text).text, 'zero', 'a request under way is answered');
  assert.deepEqual(
    ended.body.versions.map(({ percentage }: { percentage: number }) => percentage),
    [100],
  );
  assert.equal(count(await byKey('back'), 'one'), 400);
  const wrong = await set([one, 60], [zero.id, 30]);
  assert.match(wrong.body.detail, /add up to 100, not 90/);
  assert.equal((await set([one, 50], ['unknown', 50])).body.code, 'deploy_not_found');
});

test('versions with stored data are refused with the reason, and one with 100 % is not', async () => {
  const kv = '[[kv_namespaces]]\nbinding = "NOTES"\nid = "notes"\n[triggers]\ncrons = ["0 3 * * *"]\n';
  const keeper = (text: string) =>
    `${worker(text).replace('async fetch(', 'scheduled() {},\n  async fetch(')}`;
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('stored', kv), 'index.js': keeper('zero') });
  await wrangler(project, 'deploy');
  project.write({ 'index.js': keeper('one') });
  const one = /Worker Version ID: (\S+)/.exec(await wrangler(project, 'versions', 'upload'))![1]!;
  const zero = (await ask('stored')).version;
  const { code, stdout, stderr } = await project.wrangler(
    'versions',
    'deploy',
    `${zero}@50`,
    `${one}@50`,
    '-y',
  );
  assert.equal(code, 1);
  assert.match(stdout + stderr, /the KV namespace NOTES/);
  assert.match(stdout + stderr, /only one version at a time can use/);
  assert.equal((await ask('stored')).text, 'zero');
  await wrangler(project, 'versions', 'deploy', `${one}@100`, '-y');
  assert.equal((await ask('stored')).text, 'one');
});
