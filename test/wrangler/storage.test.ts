// Wrangler deploys a project with everything that Cellar runs, and looks into and changes what it keeps.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar, type Printed } from '../support/e2e/cellar.ts';
import { EVERYTHING } from '../support/wrangler/everything.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar();
let project: Project;
before(async () => {
  await cellar.start();
  project = new Project(cellar, EVERYTHING);
});
after(() => cellar[Symbol.asyncDispose]());

/** Runs Wrangler, which has to succeed. */
async function wrangler(...words: string[]): Promise<string> {
  const { code, stdout, stderr }: Printed = await project.wrangler(...words);
  assert.equal(code, 0, `wrangler ${words.join(' ')}:\n${stdout}${stderr}`);
  return stdout;
}

const all = async () => JSON.parse((await cellar.get('everything', '/all')).text);
const app = async () => cellar.call('GET', '/v1/apps/everything');

test('every binding, assets, a migration of classes, a cron and a queue arrive; only new assets are sent again', async () => {
  await wrangler('deploy', '--var', 'EXTRA:more');
  assert.deepEqual(await all(), {
    words: 'words of a module',
    greeting: 'hello',
    extra: 'more',
    list: [1, 2],
    secret: null,
    greeted: 'hi you',
    tables: [],
    count: 1,
    files: [],
  });
  assert.match((await cellar.get('everything', '/')).text, /everything/);
  assert.match((await cellar.get('everything', '/a%20b/%C3%BC.txt')).text, /odd name/);
  assert.equal((await cellar.get('everything', '/limit')).text, '{"success":false}');
  assert.deepEqual((await cellar.get('everything', '/none')).status, 404);

  project.write({ 'public/new.txt': 'new', 'secrets.json': '{"SECRET":"s3cret"}' });
  const again = await wrangler('deploy', '--keep-vars', '--secrets-file', 'secrets.json');
  assert.match(again, /Uploaded 1 file \(3 already uploaded\)/);
  const { extra, secret, count } = await all();
  assert.deepEqual({ extra, secret, count }, { extra: 'more', secret: 's3cret', count: 2 });
  assert.equal((await cellar.get('everything', '/new.txt')).text, 'new');
  assert.equal((await app()).body.status, 'running');
});

test('a version waits until it is deployed, and a rollback takes it away again', async () => {
  project.write({ 'public/new.txt': 'newer' });
  const uploaded = await wrangler('versions', 'upload', '--message', 'waits', '--tag', 'v7');
  const id = /Worker Version ID: (\S+)/.exec(uploaded)?.[1];
  assert.ok(id, uploaded);
  assert.equal((await cellar.get('everything', '/new.txt')).text, 'new');
  await wrangler('versions', 'deploy', `${id}@100%`, '--yes');
  assert.equal((await cellar.get('everything', '/new.txt')).text, 'newer');
  const version = JSON.parse((await cellar.get('everything', '/version')).text);
  assert.deepEqual([version.id, version.tag], [(await app()).body.live_deploy_id, 'v7']);
  assert.match(await wrangler('deployments', 'status'), new RegExp(id));
  await wrangler('rollback', '--yes', '--message', 'back');
  assert.equal((await cellar.get('everything', '/new.txt')).text, 'new');
});

test('a database is migrated, queried, filled from a file and exported', async () => {
  await wrangler('d1', 'migrations', 'apply', 'notes', '--remote');
  const sql = "SELECT * FROM notes; INSERT INTO notes VALUES ('second')";
  const queried = JSON.parse(
    await wrangler('d1', 'execute', 'notes', '--remote', '--json', '--command', sql),
  );
  assert.deepEqual(queried[0].results, [{ text: 'first; of all' }]);
  assert.equal(queried[1].meta.changes, 1);
  project.write({ 'more.sql': "INSERT INTO notes VALUES ('third');\nINSERT INTO notes VALUES ('fourth');" });
  await wrangler('d1', 'execute', 'notes', '--remote', '--yes', '--file', 'more.sql');
  await wrangler('d1', 'export', 'notes', '--remote', '--output', 'out.sql');
  const exported = readFileSync(join(project.directory, 'out.sql'), 'utf8');
  for (const word of ['first; of all', 'second', 'third', 'fourth']) assert.ok(exported.includes(word), word);
  await wrangler('d1', 'export', 'notes', '--remote', '--no-data', '--output', 'schema.sql');
  const schema = readFileSync(join(project.directory, 'schema.sql'), 'utf8');
  assert.match(schema, /CREATE TABLE notes \(text TEXT\);/);
  assert.doesNotMatch(schema, /INSERT|second/);
  await wrangler('d1', 'execute', 'notes', '--remote', '--yes', '--command', 'CREATE TABLE "Other" (a)');
  await wrangler('d1', 'export', 'notes', '--remote', '--table', 'other', '--output', 'other.sql');
  const other = readFileSync(join(project.directory, 'other.sql'), 'utf8');
  assert.match(other, /CREATE TABLE "Other" \(a\);/);
  assert.doesNotMatch(other, /notes/);
});

test('keys, objects, secrets and queues', async () => {
  const remote = ['--namespace-id', 'words', '--remote'];
  await wrangler('kv', 'key', 'put', 'a/key', 'a value', '--metadata', '{"a":1}', ...remote);
  assert.equal((await wrangler('kv', 'key', 'get', 'a/key', ...remote)).trim(), 'a value');
  const keys = JSON.parse(await wrangler('kv', 'key', 'list', ...remote));
  assert.deepEqual(keys, [{ name: 'a/key', metadata: { a: 1 } }, { name: 'from-app' }]);
  await wrangler('r2', 'object', 'put', 'files/dir/a.txt', '--file', 'more.sql', '--remote');
  assert.match(await wrangler('r2', 'object', 'get', 'files/dir/a.txt', '--pipe', '--remote'), /third/);
  assert.deepEqual((await all()).files, ['dir/a.txt']);
  await wrangler('secret', 'delete', 'SECRET');
  assert.deepEqual(JSON.parse(await wrangler('secret', 'list')), []);
  assert.match(await wrangler('queues', 'info', 'jobs'), /worker:everything/);
});

test('an app is deleted', async () => {
  await wrangler('delete', '--force');
  assert.equal((await app()).status, 404);
});
