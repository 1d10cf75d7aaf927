// Wrangler, the command line, the control UI and imports, at a host that is not the home of the app: the home is the host that
// runs it.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { run } from '../../cli/cli.ts';
import { serveGit } from '../../runtime/git/smart-http.ts';
import { commit } from '../support/builds/projects.ts';
import { COMPILE_CACHE_ENV } from '../support/compiled.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Visitor, welcomeOf } from '../support/e2e/visitor.ts';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';
import { eventually } from '../support/processes.ts';
import { EVERYTHING } from '../support/wrangler/everything.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const ROOT = join(import.meta.dirname, '../..');
/** A key and a certificate for `localhost`, only for tests. */
const CERTIFICATE = join(import.meta.dirname, '../support/git/localhost.pem');
const OBJECT_BYTES = 60 * 2 ** 20;
const LATE_MS = 60_000;

let hosts: Hosts;

before(async () => {
  hosts = await Hosts.start(2, {
    RUNNER_STORAGE: 'bucket',
    RUNNER_EGRESS_ALLOW: '127.0.0.1',
    SSL_CERT_FILE: CERTIFICATE,
  });
});
after(() => hosts[Symbol.asyncDispose]());

/** Makes an app. Returns its id, its home, and the other host. */
async function created(slug: string): Promise<{ id: string; other: TestHost; home: TestHost }> {
  const [one] = hosts.all as [TestHost];
  const { items } = (await rpcOf(one)('hosts.list', {})) as { items: { id: string; address: string }[] };
  const { id, home, detail } = await rpcOf(one)('apps.create', { slug, storage: 'bucket' });
  assert.ok(home, detail);
  const { address } = items.find((host) => host.id === home.id)!;
  return {
    id,
    home: hosts.all.find((host) => host.address === address)!,
    other: hosts.all.find((host) => host.address !== address)!,
  };
}

const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

test('Wrangler deploys, migrates, fills, exports, tails and sets secrets', async () => {
  const { home, other } = await created('everything');
  const { vectorize, ...config } = JSON.parse(EVERYTHING['wrangler.jsonc']);
  assert.ok(vectorize, 'apps in the bucket cannot have it');
  const project = new Project(other, { ...EVERYTHING, 'wrangler.jsonc': JSON.stringify(config) });
  const wrangler = async (...words: string[]) => {
    const { code, stdout, stderr } = await project.wrangler(...words);
    assert.equal(code, 0, `wrangler ${words.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  await wrangler('deploy', '--var', 'EXTRA:more');
  const all = async (host: TestHost) => JSON.parse((await host.get('everything', '/all')).text);
  assert.deepEqual([(await all(home)).count, (await all(other)).count], [1, 2]);

  const data = ['d1', 'execute', 'notes', '--remote'];
  await wrangler('d1', 'migrations', 'apply', 'notes', '--remote');
  const rows = await wrangler(...data, '--json', '--command', 'SELECT * FROM notes');
  assert.deepEqual(JSON.parse(rows)[0].results, [{ text: 'first; of all' }]);
  project.write({ 'more.sql': "INSERT INTO notes VALUES ('second');" });
  await wrangler(...data, '--yes', '--file', 'more.sql');
  await wrangler('d1', 'export', 'notes', '--remote', '--output', 'out.sql');
  assert.match(readFileSync(join(project.directory, 'out.sql'), 'utf8'), /'second'/);

  const words = ['--namespace-id', 'words', '--remote'];
  await wrangler('kv', 'key', 'put', 'a/key', 'a value', ...words);
  assert.equal((await wrangler('kv', 'key', 'get', 'a/key', ...words)).trim(), 'a value');

  const bytes = randomBytes(OBJECT_BYTES);
  writeFileSync(join(project.directory, 'large.bin'), bytes);
  await wrangler('r2', 'object', 'put', 'files/large.bin', '--file', 'large.bin', '--remote');
  await wrangler('r2', 'object', 'get', 'files/large.bin', '--file', 'back.bin', '--remote');
  assert.equal(digest(readFileSync(join(project.directory, 'back.bin'))), digest(bytes));
  assert.deepEqual((await all(home)).files, ['large.bin']);

  project.write({ 'secrets.json': '{"SECRET":"s3cret"}' });
  await wrangler('secret', 'bulk', 'secrets.json');
  await eventually(async () => (await all(home)).secret === 's3cret', 'the secret is there');

  const tail = project.start('tail', '--format', 'json');
  try {
    await eventually(
      async () => {
        for (const host of hosts.all) await host.get('everything', '/log');
        return tail.printed().includes('a line for the tail');
      },
      'the tail has a line',
      LATE_MS,
    );
  } finally {
    await tail.end();
  }
  await wrangler('deploy', '--var', 'EXTRA:again');
  await wrangler('rollback', '--yes', '--message', 'back');
});

test('the command line deploys a folder, follows its log, and shows previews', async () => {
  const { id, other } = await created('tool');
  const folder = join(other.directory, 'tool');
  mkdirSync(folder);
  writeFileSync(
    join(folder, 'index.js'),
    `export default { fetch(request) { console.log('asked'); return new Response('made by a tool'); } };`,
  );
  writeFileSync(
    join(folder, 'wrangler.json'),
    JSON.stringify({ name: 'tool', main: 'index.js', compatibility_date: '2026-10-01' }),
  );
  const ended = new AbortController();
  let out = '';
  let said = '';
  const cli = async (line: string, signal = new AbortController().signal) => {
    [out, said] = ['', ''];
    return run(line.split(' '), {
      folder,
      root: ROOT,
      env: {
        ...COMPILE_CACHE_ENV,
        PATH: process.env.PATH,
        HOME: other.directory,
        CELLAR_URL: other.api,
        CELLAR_TOKEN: other.key,
      },
      isTerminal: false,
      out: (text) => {
        out += text;
      },
      say: (text) => {
        said += text;
      },
      input: async () => '',
      signal,
    });
  };
  const done = async (line: string) => assert.equal(await cli(line), 0, `${line}: ${said}`);
  await done('deploy --app tool');
  await done('deploy --app tool --upload');
  for (const host of hosts.all) assert.equal((await host.get('tool')).text, 'made by a tool');
  const following = cli('logs -f --app tool', ended.signal);
  await eventually(async () => {
    for (const host of hosts.all) await host.get('tool');
    return out.includes('asked');
  }, 'the log goes on');
  ended.abort();
  await following;

  await done('previews on --app tool');
  const work = await other.checkout('hello');
  await other.commit(work, 'draft');
  const pushed = await other.git(work, 'push', other.remote('tool'), 'HEAD:refs/heads/draft');
  assert.equal(pushed.code, 0, pushed.stderr);
  assert.match(pushed.stderr, /shows this push/);
  for (const host of hosts.all)
    assert.match((await host.get('draft--tool')).text, /^Hello from draft--tool\.localhost/);
  const { items } = await rpcOf(other)('previews.list', { id });
  assert.deepEqual(
    items.map(({ name }: { name: string }) => name),
    ['draft'],
  );
  const promoted = await rpcOf(other)('previews.promote', { id, preview: 'draft' });
  assert.equal(promoted.trigger, 'promote', promoted.detail);
});

test('a public repository is imported at the home', async () => {
  const { id, other } = await created('imported');
  const worker = 'export default { fetch: () => new Response("imported") };\n';
  const { repository, sha } = commit(other.directory, { 'index.js': worker });
  const pem = readFileSync(CERTIFICATE);
  const server = createServer({ key: pem, cert: pem }, (request, response) => {
    const [path = '', query = ''] = request.url!.split('?');
    const git = { repository, hooks: '/dev/null', role: 'view', floorMb: 1, onPush: () => {} } as const;
    void serveGit({ ...git, service: path.split('/').slice(2).join('/'), query }, request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const url = `https://localhost:${(server.address() as AddressInfo).port}/good`;
    const imported = await rpcOf(other)('source.import', { id, url });
    assert.equal(imported.sha, sha, imported.detail);
    await eventually(async () => (await other.get('imported')).text === 'imported', 'it serves', LATE_MS);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test('the control UI shows what happens at the home as it happens', async () => {
  const { id, home, other } = await created('shown');
  const worker = `export default { fetch() { console.log('seen'); return new Response('shown'); } };`;
  await other.deployAgain('shown', 'hello', { 'index.js': worker });
  const ada = new Visitor(other);
  await ada.page('/');
  const account = { name: 'Ada', email: 'ada@example.com', password: 'a long enough password' };
  const { status, text } = await ada.ask('POST', '/welcome', { ...account, token: await welcomeOf(other) });
  assert.equal(status, 200, text);
  const follow = async (method: string) => {
    const call = { jsonrpc: '2.0', id: 1, method, params: { id } };
    const answer = await ada.open('POST', '/rpc', call, { accept: 'text/event-stream' });
    assert.match(answer.headers.get('content-type')!, /event-stream/, method);
    return answer;
  };
  const [lines, events] = await Promise.all([follow('logs.stream'), follow('events.stream')]);
  const until = async (stream: typeof lines, word: RegExp) => {
    let seen = '';
    for await (const chunk of stream.body!.pipeThrough(new TextDecoderStream())) {
      seen += chunk;
      if (word.test(seen)) return;
    }
    assert.fail(`the stream ended after ${seen}`);
  };
  assert.equal((await home.get('shown')).text, 'shown');
  await until(lines, /seen/);
  const logged = await rpcOf(home)('events.log', { id, channel: 'orders', event: 'paid' });
  assert.equal(logged.event, 'paid', logged.detail);
  await until(events, /"event":"paid"/);
  // A session of one host is valid at the other.
  const there = new Visitor(home);
  assert.equal(await there.signIn(account.email, account.password), 200);
  assert.equal((await there.account()).email, account.email);
});
