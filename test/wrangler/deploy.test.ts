// The real Wrangler deploys to a real Cellar.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/e2e/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

const CONFIG = (name: string, more = '') => `name = "${name}"
main = "index.js"
compatibility_date = "2026-10-01"
${more}`;
const worker = (text: string) => `export default { fetch: () => new Response('${text}') };\n`;

test('whoami names the account of the key', async () => {
  const project = new Project(cellar, {});
  const { code, stdout, stderr } = await project.wrangler('whoami');
  assert.equal(code, 0, stdout + stderr);
  const { owner } = await cellar.app(await cellar.create('owned'));
  assert.match(stdout, new RegExp(owner));
  const stranger = await project.run(['whoami'], { token: 'cellar_wrong' });
  assert.equal(stranger.code, 1);
  assert.match(stranger.stdout + stranger.stderr, /bearer token is wrong|Unable to/i);
});

test('a one-file Worker makes its app, answers, and is a release like any other', async () => {
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('first'), 'index.js': worker('one') });
  const first = await project.wrangler('deploy');
  assert.equal(first.code, 0, first.stdout + first.stderr);
  assert.match(first.stdout, /first\.localhost/);
  assert.equal((await cellar.get('first')).text, 'one');

  project.write({ 'index.js': worker('two') });
  const second = await project.wrangler('deploy', '--message', 'the second');
  assert.equal(second.code, 0, second.stdout + second.stderr);
  assert.equal((await cellar.get('first')).text, 'two');

  const { items } = (await cellar.call('GET', '/v1/apps/first/deploys')).body;
  assert.deepEqual(
    items.map(({ trigger, status, message }: Record<string, string>) => [trigger, status, message]),
    [
      ['upload', 'live', 'the second'],
      ['upload', 'replaced', ''],
    ],
  );
  const back = await cellar.call('POST', '/v1/apps/first/rollback', { deploy_id: items[1].id });
  assert.equal(back.status, 202);
});

test('a Worker that throws when it loads is refused with the place in the source, and the old one serves on', async () => {
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('thrower'), 'index.js': worker('good') });
  assert.equal((await project.wrangler('deploy')).code, 0);
  project.write({ 'index.js': `\nthrow new Error('no cake');\n${worker('bad')}` });
  const { code, stdout, stderr } = await project.wrangler('deploy');
  assert.equal(code, 1);
  assert.match(stdout + stderr, /no cake/);
  assert.equal((await cellar.get('thrower')).text, 'good');
});

test('what would be deployed, what was, and by whom', async () => {
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('told'), 'index.js': worker('told') });
  const dry = await project.wrangler('deploy', '--dry-run', '--var', 'COLOUR:blue');
  assert.equal(dry.code, 0, dry.stdout + dry.stderr);
  assert.match(dry.stdout, /env\.COLOUR/);
  assert.equal((await cellar.call('GET', '/v1/apps/told')).status, 404);

  assert.equal((await project.wrangler('deploy', '--var', 'COLOUR:blue')).code, 0);
  const listed = await project.wrangler('deployments', 'list', '--json');
  const [{ versions }] = JSON.parse(listed.stdout);
  const version = versions[0].version_id;
  const { stdout } = await project.wrangler('versions', 'view', version);
  assert.match(stdout, /Author: +owner/);
  assert.match(stdout, /env\.COLOUR \("blue"\)/);
  const halves = await project.wrangler('versions', 'deploy', `${version}@50%`, '--yes');
  assert.equal(halves.code, 1);
  const secret = await project.wrangler('versions', 'secret', 'put', 'KEY');
  assert.match(secret.stdout + secret.stderr, /secrets are the app's: `wrangler secret`/);
});

test('a tail shows requests with their lines of the log, filtered', async () => {
  const project = new Project(cellar, {
    'wrangler.toml': CONFIG('talker'),
    'index.js': `export default { fetch(request) { console.log('asked for', new URL(request.url).pathname); return new Response('heard'); } };`,
  });
  assert.equal((await project.wrangler('deploy')).code, 0);
  const tail = project.start('tail', '--format', 'pretty', '--search', 'asked for /b');
  try {
    await eventually(() => /Connected to talker/.test(tail.printed()), 'the tail is connected');
    await eventually(async () => {
      await cellar.get('talker', '/a');
      await cellar.get('talker', '/b');
      return /\(log\) asked for \/b/.test(tail.printed());
    }, 'the line is shown');
    assert.match(tail.printed(), /GET http:\/\/talker\.localhost:\d+\/b - Ok @/);
    assert.doesNotMatch(tail.printed(), /\/a/);
  } finally {
    await tail.end();
  }
  const posted = project.start('tail', '--format', 'json', '--method', 'POST', '--status', 'ok');
  try {
    await eventually(async () => {
      await cellar.get('talker', '/a');
      await cellar.get('talker', '/b', { method: 'POST' });
      return /asked for \/b[\s\S]*"status": 200/.test(posted.printed());
    }, 'the request is shown');
    assert.doesNotMatch(posted.printed(), /\/a/);
  } finally {
    await posted.end();
  }
  const refused = await project.wrangler('tail', '--header', 'x-a:1');
  assert.equal(refused.code, 1);
  assert.match(refused.stdout + refused.stderr, /--search, --status, --method, --version-id/);
});

test('versions upload prints the address of a preview, on storage of its own, which versions deploy promotes', async () => {
  const kv = '[[kv_namespaces]]\nbinding = "KV"\nid = "notes"';
  const keeper = (text: string) => `export default {
    async fetch(request, env) {
      const n = Number((await env.KV.get('n')) ?? 0) + 1;
      await env.KV.put('n', String(n));
      return new Response('${text} ' + n);
    },
  };`;
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('staged', kv), 'index.js': keeper('one') });
  assert.equal((await project.wrangler('deploy')).code, 0);
  assert.equal((await cellar.get('staged')).text, 'one 1');
  project.write({ 'index.js': keeper('two') });
  const { code, stdout, stderr } = await project.wrangler('versions', 'upload', '--preview-alias', 'staging');
  assert.equal(code, 0, stdout + stderr);
  const version = /Worker Version ID: (\S+)/.exec(stdout)![1]!;
  const port = `localhost:${cellar.edgePort}`;
  assert.ok(stdout.includes(`Version Preview URL: https://${version.slice(0, 8)}--staged.${port}`), stdout);
  assert.ok(stdout.includes(`Version Preview Alias URL: https://staging--staged.${port}`), stdout);
  assert.equal((await cellar.get('staging--staged')).text, 'two 1');
  assert.equal((await cellar.get(`${version.slice(0, 8)}--staged`)).text, 'two 2');
  assert.equal((await cellar.get('staged')).text, 'one 2');

  // The alias goes on with what it keeps; what does not start is refused, and leaves it as it is.
  project.write({ 'index.js': keeper('three') });
  const third = await project.wrangler('versions', 'upload', '--preview-alias', 'staging');
  assert.equal(third.code, 0, third.stdout + third.stderr);
  assert.equal((await cellar.get('staging--staged')).text, 'three 3');
  project.write({ 'index.js': `throw new Error('no cake'); ${keeper('four')}` });
  const broken = await project.wrangler('versions', 'upload');
  assert.equal(broken.code, 1);
  assert.match(broken.stdout + broken.stderr, /no cake/);
  project.write({ 'index.js': keeper('five') });
  const odd = await project.wrangler('versions', 'upload', '--preview-alias', 'a');
  assert.match(odd.stdout + odd.stderr, /preview alias/);

  const promoted = await project.wrangler('versions', 'deploy', `${version}@100`, '--yes');
  assert.equal(promoted.code, 0, promoted.stdout + promoted.stderr);
  assert.equal((await cellar.get('staged')).text, 'two 3');
  assert.equal((await cellar.get('staging--staged')).text, 'three 4');
});
