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

test('a tail shows lines of the log as they are written', async () => {
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
    assert.doesNotMatch(tail.printed(), /asked for \/a/);
  } finally {
    await tail.end();
  }
});
