// Every command against a real Cellar: its JSON output has the contract's shape, and its exit codes are as documented.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { run } from '../../cli/cli.ts';
import type { Command } from '../../cli/command.ts';
import { commands } from '../../cli/commands.ts';
import { completion } from '../../cli/completion.ts';
import type { Deploy } from '../../handlers/contract/apps/deploys.ts';
import { operationsByName } from '../../handlers/contract/index.ts';
import { commit } from '../support/builds/projects.ts';
import { COMPILE_CACHE_ENV } from '../support/compiled.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { CERTIFICATE, GitHost } from '../support/git/git-host.ts';
import { ownPort } from '../support/ports.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CODE = `
import { DurableObject, WorkflowEntrypoint } from 'cloudflare:workers';
export class Seen extends DurableObject {
  add() {
    this.ctx.storage.kv.put('n', this.seen() + 1);
  }
  seen() {
    return this.ctx.storage.kv.get('n') ?? 0;
  }
}
export class Order extends WorkflowEntrypoint {
  async run(event, step) {
    return (await step.waitForEvent('paid', { type: 'paid' })).payload;
  }
}
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/boom') throw new TypeError('it broke');
    if (pathname === '/people') return Response.json(await env.DB.prepare('SELECT name FROM people').raw());
    const seen = env.SEEN.getByName('all');
    if (pathname === '/kept') {
      const object = await env.FILES.get('images/a');
      return Response.json([await env.KV.get('a'), await object?.text(), (await seen.seen()) > 0]);
    }
    await seen.add();
    await env.DB.exec('CREATE TABLE IF NOT EXISTS people (name TEXT)');
    await env.KV.put('a', 'b');
    await env.FILES.put('images/a', 'b');
    console.log('filled');
    return new Response('first');
  },
  async scheduled({ cron }) {
    console.log('at ' + cron);
  },
};
`;
const CONFIG = `name = "shop"
main = "index.js"
compatibility_date = "2026-10-01"
[[d1_databases]]
binding = "DB"
database_name = "people"
[[kv_namespaces]]
binding = "KV"
id = "sessions"
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
[[durable_objects.bindings]]
name = "SEEN"
class_name = "Seen"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Seen"]
[triggers]
crons = ["0 0 1 1 *"]
[[workflows]]
binding = "ORDERS"
name = "orders"
class_name = "Order"
`;

const tcpPort = ownPort();
const cellar = new Cellar({
  RUNNER_EGRESS_ALLOW: '127.0.0.1',
  RUNNER_TCP_PORTS: String(tcpPort),
  RUNNER_MAX_APPS_PER_USER: '100',
  SSL_CERT_FILE: CERTIFICATE,
});
const gitHost = new GitHost();
let home = '';
let folder = '';
before(async () => {
  await Promise.all([cellar.start(), gitHost.start()]);
  home = join(cellar.directory, 'home');
  folder = join(cellar.directory, 'shop');
  mkdirSync(home);
  mkdirSync(folder);
  writeFileSync(join(folder, 'index.js'), CODE);
  writeFileSync(join(folder, 'wrangler.toml'), CONFIG);
});
after(async () => {
  gitHost.close();
  await cellar[Symbol.asyncDispose]();
});

interface Ended {
  code: number;
  out: string;
  said: string;
}

/** Runs one command line without a terminal, as a program would. */
async function cli(
  line: string | readonly string[],
  options: {
    input?: string;
    token?: string;
    in?: string;
    signal?: AbortSignal;
    onOut?: (text: string) => void;
  } = {},
): Promise<Ended> {
  let out = '';
  let said = '';
  const words = typeof line === 'string' ? line.split(' ') : line;
  const code = await run(words, {
    folder: options.in ?? folder,
    root: ROOT,
    env: {
      ...COMPILE_CACHE_ENV,
      PATH: process.env.PATH,
      HOME: home,
      CELLAR_URL: cellar.api,
      CELLAR_TOKEN: options.token ?? cellar.token,
    },
    isTerminal: false,
    out: (text) => {
      out += text;
      options.onOut?.(text);
    },
    say: (text) => {
      said += text;
    },
    input: async () => options.input ?? '',
    signal: options.signal ?? new AbortController().signal,
  });
  return { code, out, said };
}

/** Commands whose JSON output was checked. */
const parsed = new Set<Command>();

/** Runs a command with `--json`, and parses its output with the schema of its operation. */
// biome-ignore lint/suspicious/noExplicitAny: the schema checks the answer's shape
async function json(words: string, more: readonly string[] = [], input?: string): Promise<any> {
  const command = commands.find((each) => each.words === words)!;
  const ended = await cli([...words.split(' '), ...more, '--json'], input === undefined ? {} : { input });
  assert.equal(ended.code, 0, `${words}: ${ended.said}`);
  parsed.add(command);
  return operationsByName.get(command.answers!)!.output.parse(JSON.parse(ended.out));
}

test('an app is made, deployed from a folder without a repository, and answers', async () => {
  const missing = await cli('deploy --app shop');
  assert.equal(missing.code, 4, missing.said);
  assert.match(missing.said, /There is no app shop that you may deploy to\.\nNext: cellar create shop/);
  const refused = await cli('create shop --storage bucket');
  assert.equal(refused.code, 2, refused.said);
  assert.match(refused.said, /storage.*ask the operator of Cellar to set RUNNER_BUCKET/);
  const made = await json('create', ['shop', '--storage', 'local']);
  assert.equal(made.storage, 'local');
  writeFileSync(join(folder, '.dev.vars'), 'SECRET=of this machine');
  mkdirSync(join(folder, 'node_modules'));
  writeFileSync(join(folder, 'node_modules', 'package.js'), '');
  assert.equal(made.slug, 'shop');
  const deployed = await cli('deploy');
  assert.equal(deployed.code, 0, deployed.said);
  assert.match(deployed.said, /▸ bundle/, 'the steps are printed');
  assert.match(deployed.out, /live/);
  assert.match((await cli('status')).out, /On this machine/);
  assert.equal((await cellar.get('shop')).text, 'first');
});

/** Delivers GitHub's webhook of a pull request from a fork to the repository `shop`. */
async function pullFromOutside(url: string, secret: string): Promise<{ sha: string }> {
  const sha = '1'.repeat(40);
  const pull = {
    ...{ number: 12, title: 'From outside', state: 'open', updated_at: '2026-01-01T00:00:00Z' },
    ...{ user: { login: 'mallory' }, author_association: 'NONE' },
    head: { ref: 'change', sha, repo: { full_name: 'mallory/shop' } },
    base: { repo: { full_name: 'shop' } },
  };
  const body = JSON.stringify({ pull_request: pull });
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  const headers = {
    'content-type': 'application/json',
    'x-github-event': 'pull_request',
    'x-hub-signature-256': `sha256=${signature}`,
  };
  assert.equal((await fetch(url, { method: 'POST', headers, body })).status, 202);
  return { sha };
}

test('a repository elsewhere is connected, fetched by a tag, and disconnected', async () => {
  const { repository, sha } = commit(cellar.directory, { 'index.html': 'x' });
  execFileSync('git', ['--git-dir', repository, 'tag', 'v1']);
  gitHost.repositories.set('shop', { path: repository, token: null });
  await cellar.create('connected');
  const app = ['--app', 'connected'];
  const connected = await json('source connect', [
    gitHost.url('shop'),
    '--deploy-on',
    'manual',
    '--poll',
    '5',
    ...app,
  ]);
  assert.deepEqual([connected.deploy_on, connected.poll_minutes], ['manual', 5]);
  assert.equal((await json('source sync', ['v1', ...app])).sha, sha);
  assert.equal((await json('source get', app)).last_fetch.sha, sha);
  const shown = await cli('source --app connected');
  assert.match(shown.out, /deploy key +ssh-ed25519 /);
  const { sha: pulled } = await pullFromOutside(connected.webhook_url, connected.secret);
  const unnamed = await cli('source approve 12 --app connected');
  assert.equal(unnamed.code, 2);
  assert.match(unnamed.said, /12 \(From outside, by mallory\) is at the commit 1{40}\./);
  assert.match(unnamed.said, /cellar source approve 12 --sha 1{40}/);
  assert.match((await cli('source --app connected')).out, /12 +From outside +(queued|waiting)/);
  assert.equal((await json('source approve', ['12', '--sha', pulled, ...app])).state, 'queued');
  assert.match((await cli('source --app connected')).out, /12 +From outside +(queued|building|failed)/);
  assert.equal((await cli('source approve x --app connected')).code, 2);
  assert.equal((await cli('source approve 13 --app connected')).code, 4);
  assert.equal((await cli('source connect x --deploy-on never --app connected')).code, 2);
  assert.equal((await cli('source connect x --poll soon --app connected')).code, 2);
  await json('source disconnect', ['--yes', ...app]);
  assert.equal((await cli('source sync --app connected')).code, 4);
});

test('an alert is made, changed, tested and deleted', async () => {
  await cellar.create('alerting');
  const app = ['--app', 'alerting'];
  const { id, secret } = await json('alerts set', ['https://127.0.0.1/hook', '--on', 'crash,deploy', ...app]);
  assert.match(secret, /^whsec_/);
  const changed = await json('alerts set', ['--alert', id, '--format', 'slack', '--latency-ms', '9', ...app]);
  assert.deepEqual([changed.on, changed.format, changed.latency_ms], [['crash', 'deploy'], 'slack', 9]);
  assert.equal((await json('alerts set', ['ada@example.com', ...app])).url, 'mailto:ada@example.com');
  assert.equal((await json('alerts list', app)).items.length, 2);
  const tested = await cli(`alerts test ${id} --app alerting`);
  assert.equal(tested.code, 1);
  assert.match(tested.said, /The test message was not delivered: /);
  for (const wrong of ['--on crash,smoke', '--format fax', '--error-rate many', '--cpu-percent 0'])
    assert.equal((await cli(`alerts set https://x.test ${wrong} --app alerting`)).code, 2, wrong);
  await json('alerts delete', [id, '--yes', ...app]);
});

test('deploy pushes the commits of a repository, and exits with 1 and the source position when the deploy fails', async (t) => {
  const remote = await json('init', ['shop']);
  assert.equal(readGit('config', 'remote.cellar.url'), remote.url);
  // The remote has the commit of the deployed folder.
  const fetched = await cellar.git(folder, 'fetch', cellar.remote('shop'), 'main');
  assert.equal(fetched.code, 0, fetched.stderr);
  assert.equal(readGit('ls-tree', '-r', '--name-only', 'FETCH_HEAD'), 'index.js\nwrangler.toml');
  for (const name of ['.dev.vars', 'node_modules']) rmSync(join(folder, name), { recursive: true });
  await cellar.git(folder, 'reset', '--soft', 'FETCH_HEAD');
  writeFileSync(join(folder, 'index.js'), 'export default {\n  fetch: () => new Response("x" };\n');
  const changed = await cli('deploy');
  assert.deepEqual([changed.code, changed.out], [2, '']);
  assert.match(changed.said, /not committed.*\nNext: git add/);
  await cellar.commit(folder, 'broken');
  const failed = await cli('deploy --json');
  assert.deepEqual([failed.code, failed.out], [1, '']);
  // The position is printed by git and at the end. The release before still serves, so there is no hint to roll back.
  assert.equal(failed.said.match(/index\.js:2/g)?.length, 2, failed.said);
  const failedId = ({ said }: Ended) =>
    /The release before it still serves\.\nNext: cellar deploys log (\w+)\n$/.exec(said)?.[1];
  const first = failedId(failed);
  const again = await cli('deploy');
  const id = failedId(again);
  assert.ok(first && id && id !== first, `a second deploy tries again: ${again.said}`);
  const { out } = await cli('status');
  const end = out.split('\n').slice(-3).join('\n');
  assert.match(
    end,
    new RegExp(`^The last deploy failed \\d+ s ago: index\\.js:2.*\nIts log: cellar deploys log ${id}\n$`),
  );
  writeFileSync(join(folder, 'index.js'), CODE.replace("'first'", "'second'"));
  await cellar.commit(folder, 'mended');
  // git does not accept the runner token: the push makes a temporary key and revokes it. It revokes an orphaned one too.
  await json('keys create', ['cellar deploy (temporary)']);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 7 * 3_600_000 });
  assert.equal((await json('deploy')).status, 'live');
  t.mock.timers.reset();
  assert.equal((await cellar.get('shop')).text, 'second');
  assert.deepEqual(
    (await json('keys list')).items.map(({ name }: { name: string }) => name),
    ['first start'],
  );
});

test('deploy goes live where pushes do not deploy, and with --ref deploys a tag or a commit', async () => {
  const work = await cellar.checkout('hello');
  const app = ['--app', 'named'];
  await cellar.create('named');
  await json('builds set', ['--deploy-on', 'manual', ...app]);
  const deploy = (...words: string[]) => cli(`deploy --app named ${words.join(' ')}`, { in: work });
  const pushed = await deploy('--json');
  assert.equal(pushed.code, 0, pushed.said);
  const { sha, trigger } = JSON.parse(pushed.out) as Deploy;
  assert.equal(trigger, 'redeploy');
  writeFileSync(join(work, 'other.txt'), 'x');
  await cellar.commit(work, 'other');
  assert.notEqual(JSON.parse((await deploy('--json')).out).sha, sha);
  const named = await deploy('--json', '--ref', sha.slice(0, 8));
  assert.equal(named.code, 0, named.said);
  assert.equal(JSON.parse(named.out).sha, sha);
  const again = JSON.parse((await deploy('--json')).out) as Deploy;
  assert.deepEqual([again.status, again.sha === sha], ['live', false], 'what was replaced is deployed again');
  const unknown = await deploy('--ref', 'v9');
  assert.equal(unknown.code, 4);
  assert.match(unknown.said, /Ref: the repository has no tag, branch or commit v9/);
  for (const other of ['--upload', '--env=staging'])
    assert.equal((await deploy('--ref', 'main', other)).code, 2);
});

test('deploy in a folder of a repository deploys that folder, and never the root in its place', async () => {
  const work = await cellar.checkout('hello');
  const inner = join(work, 'apps', 'inner');
  const sources = join(inner, 'src');
  mkdirSync(sources, { recursive: true });
  writeFileSync(join(sources, 'index.js'), 'export default { fetch: () => new Response("inner") };\n');
  const config = { name: 'inner', main: 'src/index.js', compatibility_date: '2026-10-01' };
  writeFileSync(join(inner, 'wrangler.json'), JSON.stringify(config));
  await cellar.commit(work, 'inner');
  await cellar.create('inner');
  const refused = async (line: string, at: string, path: string) => {
    const { code, said } = await cli(line, { in: at });
    assert.equal(code, 2, said);
    assert.ok(said.endsWith(`\nNext: cellar builds set --root-directory ${path} --app inner\n`), said);
  };
  await refused('deploy', inner, 'apps/inner');
  await refused('deploy --app inner', sources, 'apps/inner');
  assert.deepEqual((await json('deploys list', ['--app', 'inner'])).items, []);
  await json('builds set', ['--root-directory', 'apps/inner', '--app', 'inner']);
  const deployed = await cli('deploy', { in: inner });
  assert.equal(deployed.code, 0, deployed.said);
  assert.equal((await cellar.get('inner')).text, 'inner');
  // The remote links the whole repository to the app, so any folder without a project of its own stands for it.
  await cellar.git(work, 'remote', 'add', 'cellar', cellar.remote('inner'));
  const linked = await cli('deploy', { in: sources });
  assert.equal(linked.code, 0, linked.said);
});

test('deploy in a damaged repository pushes nothing', async () => {
  const work = await cellar.checkout('hello');
  await cellar.create('damaged');
  const deploy = () => cli('deploy --app damaged', { in: work });
  for (const file of ['index', 'HEAD']) {
    writeFileSync(join(work, '.git', file), 'damaged');
    const { code, said } = await deploy();
    assert.equal(code, 2, said);
    assert.match(said, /^cellar: git cannot read this repository: .+\nNext: cellar deploy --upload\n$/);
  }
  assert.deepEqual((await json('deploys list', ['--app', 'damaged'])).items, []);
});

test('deploy in the only project of a repository needs no root directory', async () => {
  const work = join(cellar.directory, 'only');
  const web = join(work, 'web');
  mkdirSync(web, { recursive: true });
  writeFileSync(join(work, 'README.md'), 'only');
  writeFileSync(join(web, 'index.js'), 'export default { fetch: () => new Response("web") };\n');
  const config = { name: 'only', main: 'index.js', compatibility_date: '2026-10-01' };
  writeFileSync(join(web, 'wrangler.json'), JSON.stringify(config));
  await cellar.git(work, 'init', '--quiet');
  await cellar.commit(work, 'only');
  await cellar.create('only');
  const deployed = await cli('deploy', { in: web });
  assert.equal(deployed.code, 0, deployed.said);
  assert.equal((await cellar.get('only')).text, 'web');
});

test('deploy of a folder sends only new files, leaves private ones out, and refuses what leaves the folder', async () => {
  const work = join(cellar.directory, 'static');
  const dist = join(work, 'dist');
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(dist, path)), { recursive: true });
    writeFileSync(join(dist, path), text);
  };
  for (const path of ['index.html', 'a/b.txt', '.env', '.git/config', '.npmrc', 'node_modules/x.js'])
    write(path, path);
  symlinkSync('a/b.txt', join(dist, 'link.txt'));
  symlinkSync('.env', join(dist, 'settings.txt'));
  await cellar.create('built');
  const deploy = (...words: string[]) => cli(['deploy', '--app', 'built', '--dir', ...words], { in: work });
  const first = await deploy('dist', '--json');
  assert.equal(first.code, 0, first.said);
  const { trigger, status } = operationsByName
    .get('deploys.finish_upload')!
    .output.parse(JSON.parse(first.out)) as Deploy;
  assert.deepEqual([trigger, status], ['upload', 'live']);
  assert.match(first.said, /▸ left out: \.env, \.git, \.npmrc, node_modules, settings\.txt\n/);
  assert.match(first.said, /▸ 2 of 3 files are new, /);
  assert.equal((await cellar.get('built', '/link.txt')).text, 'a/b.txt');
  for (const path of ['/.env', '/settings.txt']) assert.equal((await cellar.get('built', path)).status, 404);
  write('index.html', 'changed');
  const second = await deploy('dist');
  assert.match(second.said, /▸ 1 of 3 files are new, 7 B/);
  assert.equal((await cellar.get('built')).text, 'changed');

  const refused = async (folder: string, words: RegExp) => {
    const { code, said } = await deploy(folder);
    assert.equal(code, 2);
    assert.match(said, words);
  };
  await refused('.', /\. has no index\.html at its top; choose the built folder, such as dist\./);
  await refused('none', /none is not a folder\./);
  const other = (name: string, target: string) => {
    rmSync(join(dist, 'odd'), { force: true });
    symlinkSync(target, join(dist, 'odd'));
    return name;
  };
  await refused(other('dist', '../../'), /odd is a link that leaves the folder; copy what it leads to\./);
  await refused(other('dist', 'nowhere'), /odd is a link that leads nowhere; remove it\./);
  await refused(other('dist', '.'), /odd is a link to a folder that contains it\./);
  rmSync(join(dist, 'odd'));
  truncateSync(join(dist, 'index.html'), 25 * 2 ** 20 + 1);
  await refused('dist', /index\.html has .*, more than the 25.* of one file\./);
  assert.equal((await deploy('dist', '--upload')).code, 2);
});

test('deploy by upload bundles locally, and sends crons, migrations and only new assets', async () => {
  const plain = join(cellar.directory, 'plain');
  const files = {
    'wrangler.toml': `name = "plain"\nmain = "index.js"\ncompatibility_date = "2026-10-01"\nassets = { directory = "site", binding = "ASSETS" }\nd1_databases = [{ binding = "DB", database_name = "words" }]\ntriggers = { crons = ["0 0 1 1 *"] }\n`,
    'index.js':
      "export default { fetch: async (request, env) => Response.json(await env.DB.prepare('SELECT text FROM words').raw()), scheduled() {} };",
    'migrations/0001_words.sql': "CREATE TABLE words (text TEXT); INSERT INTO words VALUES ('one');",
    'site/a.txt': 'a',
    'site/b.txt': 'b',
    'site/.assetsignore': 'b.txt',
  };
  for (const name of ['migrations', 'site']) mkdirSync(join(plain, name), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(plain, name), text);
  await json('create', ['plain']);
  const upload = () => cli('deploy --upload --json', { in: plain });
  const first = await upload();
  assert.equal(first.code, 0, first.said);
  const deploy = operationsByName.get('deploys.create')!.output.parse(JSON.parse(first.out)) as Deploy;
  assert.deepEqual([deploy.trigger, deploy.status], ['upload', 'live']);
  assert.equal((await cellar.get('plain')).text, '[["one"]]');
  assert.equal((await cellar.get('plain', '/a.txt')).text, 'a');
  assert.notEqual((await cellar.get('plain', '/b.txt')).text, 'b');
  const crons = await cli('crons --app plain --json');
  assert.deepEqual(
    JSON.parse(crons.out).items.map(({ cron }: { cron: string }) => cron),
    ['0 0 1 1 *'],
  );
  writeFileSync(join(plain, 'site', 'c.txt'), 'c');
  const second = await upload();
  assert.equal(second.code, 0, second.said);
  assert.match(second.said, /1 of \d assets are new/);
  assert.equal((await cellar.get('plain', '/c.txt')).text, 'c');
  writeFileSync(join(plain, 'index.js'), 'export default {\n  fetch( };\n');
  const broken = await upload();
  assert.deepEqual([broken.code, broken.out], [1, '']);
  assert.match(broken.said, /index\.js:2/);
  writeFileSync(join(plain, 'index.js'), "throw new Error('not today'); export default { fetch() {} };");
  const failed = await upload();
  assert.deepEqual([failed.code, failed.out], [1, '']);
  assert.match(failed.said, /not today/);
  assert.equal((await cellar.get('plain')).text, '[["one"]]');
  writeFileSync(join(plain, 'index.js'), files['index.js']);
  const config = join(plain, 'wrangler.toml');
  writeFileSync(config, `${readFileSync(config, 'utf8')}[env.staging]\nassets = { directory = "staged" }\n`);
  mkdirSync(join(plain, 'staged'));
  writeFileSync(join(plain, 'staged', 'd.txt'), 'd');
  const staged = await cli('deploy --env staging --json', { in: plain });
  assert.equal(staged.code, 0, staged.said);
  assert.equal((await cellar.get('plain', '/d.txt')).text, 'd');
});

test('deploy by upload sends the files of Workers Sites', async () => {
  const folder = join(cellar.directory, 'sited');
  mkdirSync(join(folder, 'public/a'), { recursive: true });
  const site = { bucket: 'public', exclude: ['*.draft'] };
  const config = { name: 'sited', main: 'index.js', compatibility_date: '2026-10-01', site };
  writeFileSync(join(folder, 'wrangler.jsonc'), JSON.stringify(config));
  writeFileSync(
    join(folder, 'index.js'),
    `import manifest from '__STATIC_CONTENT_MANIFEST';
     export default { async fetch(request, env) {
       const key = JSON.parse(manifest)[new URL(request.url).pathname.slice(1)];
       return new Response(key === undefined ? 'not here' : await env.__STATIC_CONTENT.get(key));
     } };`,
  );
  writeFileSync(join(folder, 'public/a/page.html'), 'a page');
  writeFileSync(join(folder, 'public/a/page.draft'), 'a draft');
  await json('create', ['sited']);
  const { code, said } = await cli('deploy --upload --json', { in: folder });
  assert.equal(code, 0, said);
  assert.equal((await cellar.get('sited', '/a/page.html')).text, 'a page');
  assert.equal((await cellar.get('sited', '/a/page.draft')).text, 'not here');
});

test("deploy by upload fills the cache of OpenNext's Worker", async () => {
  const folder = join(cellar.directory, 'cached');
  mkdirSync(join(folder, '.open-next/cache/b1'), { recursive: true });
  const config = {
    name: 'cached',
    main: '.open-next/worker.js',
    compatibility_date: '2026-10-01',
    kv_namespaces: [{ binding: 'NEXT_INC_CACHE_KV', id: 'cache' }],
  };
  writeFileSync(join(folder, 'wrangler.jsonc'), JSON.stringify(config));
  const key = createHash('sha256').update('/hello').digest('hex');
  writeFileSync(
    join(folder, '.open-next/worker.js'),
    `globalThis.cache = 'cf-kv-incremental-cache';
     export default { fetch: async (request, env) =>
       new Response(await env.NEXT_INC_CACHE_KV.get('incremental-cache/b1/${key}.cache')) };`,
  );
  writeFileSync(join(folder, '.open-next/cache/b1/hello.cache'), 'made ahead');
  await json('create', ['cached']);
  const { code, said } = await cli('deploy --upload --json', { in: folder });
  assert.equal(code, 0, said);
  assert.equal((await cellar.get('cached')).text, 'made ahead');
});

test('every command for an operation prints JSON that matches the contract', async () => {
  await eventually(async () => (await cellar.get('shop', '/boom')).status === 500, 'the app to fail');
  await json('list');
  await json('status');
  await json('open');
  const list = (await json('deploys list')).items;
  assert.match((await json('deploys log', [list[1].id])).log, /index\.js:2/);
  assert.equal((await json('deploys log')).deploy_id, list[0].id, 'the newest');
  const rollback = await json('rollback');
  assert.equal(rollback.trigger, 'rollback');
  assert.equal((await cellar.get('shop')).text, 'first');
  const [{ id: version, percentage }] = (await json('split get')).versions;
  assert.equal(percentage, 100);
  assert.equal((await json('split set', [`${version}@100`])).versions[0].id, version);
  assert.equal((await json('split set', [`${rollback.id}@100`])).versions[0].id, version);
  assert.match((await cli(`split set ${version}`)).said, /Give ".*" a percentage/);
  assert.equal((await json('redeploy')).status, 'live');
  assert.deepEqual(await json('previews on', ['--copy']), { branches: true, storage: 'copy', vars: {} });
  const { stderr } = await cellar.git(folder, 'push', cellar.remote('shop'), 'HEAD:refs/heads/draft');
  assert.match(stderr, /draft--shop\S* shows this push/);
  assert.equal((await json('previews list')).items[0].name, 'draft');
  assert.match((await cli('previews')).out, /^PREVIEW .*\ndraft /, 'the group lists, too');
  assert.match((await json('previews log', ['draft'])).log, /copying the app's storage/);
  assert.equal((await json('previews promote', ['draft'])).status, 'live');
  assert.equal(await json('previews delete', ['draft', '--yes']), null);
  await json('previews off');
  assert.equal((await json('previews get')).branches, false);
  const slow = { build: 'sleep 60' };
  await cellar.create('slow');
  const files = [
    { path: 'package.json', content: JSON.stringify({ main: 'index.js', scripts: slow }) },
    { path: 'index.js', content: CODE },
  ];
  const commit = { message: 'slow', author_email: 'ada@example.com', files };
  const { deploy_id } = (await cellar.call('POST', '/v1/apps/slow/source/commit', commit)).body;
  assert.equal((await json('cancel', [deploy_id, '--app', 'slow'])).id, deploy_id);
  await json('sleep');
  await json('wake');
  await json('stop');
  await json('start');
  await eventually(
    async () => (await json('logs')).items.some((line: { text: string }) => line.text === 'filled'),
    'the line',
  );
  await eventually(async () => (await json('errors list')).items.length === 1, 'the error');
  const [{ fingerprint }] = (await json('errors list')).items;
  assert.equal((await json('errors show', [fingerprint])).kind, 'TypeError');
  await json('errors ignore', [fingerprint]);
  await json('errors reopen', [fingerprint]);
  await json('errors resolve', [fingerprint]);
  const [{ trace_id }] = (await json('requests', ['--path', '/boom', '--status', '5xx'])).items;
  assert.equal((await json('trace', [trace_id])).spans[0].path, '/boom');
  assert.match((await cli(['trace', trace_id])).out, /^GET \/boom: 500 after/);
  for (const what of ['paths', 'referrers', 'devices', 'countries'])
    assert.ok((await json(`traffic ${what}`, ['--hours', '48'])).items.length > 0, what);
  assert.equal((await json('workflows list')).items[0].name, 'orders');
  assert.equal((await json('workflows run', ['orders', '{"to": "Ada"}', '--id', 'o1'])).id, 'o1');
  await eventually(
    async () => (await json('workflows show', ['orders', 'o1'])).status === 'waiting',
    'it waits',
  );
  assert.deepEqual((await json('workflows show', ['orders', 'o1'])).params, { to: 'Ada' });
  assert.equal((await json('workflows pause', ['orders', 'o1'])).status, 'paused');
  await json('workflows resume', ['orders', 'o1']);
  await json('workflows send', ['orders', 'o1', 'paid', '3']);
  const done = async () => (await json('workflows instances', ['orders', '--status', 'complete'])).items;
  await eventually(async () => (await done()).length === 1, 'it has ended');
  await json('workflows restart', ['orders', 'o1']);
  await json('workflows terminate', ['orders', 'o1']);
  await json('workflows delete', ['orders', 'o1', '--yes']);
  assert.equal((await json('crons run')).outcome, 'ok');
  await eventually(async () => (await json('crons list')).items[0].last_run?.trigger === 'manual', 'the run');
  assert.equal((await json('env set', ['NPM_TOKEN'], 'npm_1\n')).value, 'npm_1');
  await json('env list');
  await json('env delete', ['NPM_TOKEN']);
  assert.deepEqual((await json('vars set', ['LIMITS', '{"max": 5}', '--as-json'])).value, { max: 5 });
  assert.equal((await json('vars set', ['API_URL', 'https://a.example'])).value, 'https://a.example');
  assert.equal((await json('vars list')).items[0].name, 'API_URL');
  assert.deepEqual(
    (await json('bindings')).items.map(({ name, type, target }: Record<string, string>) => [
      name,
      type,
      target,
    ]),
    [
      ['DB', 'd1', 'people'],
      ['FILES', 'r2_bucket', 'files'],
      ['KV', 'kv_namespace', 'sessions'],
      ['ORDERS', 'workflow', 'orders'],
      ['SEEN', 'durable_object_namespace', 'Seen'],
    ],
  );
  await json('vars unset', ['API_URL']);
  assert.deepEqual((await json('previews vars', ['{"API_URL": "test"}'])).vars, { API_URL: 'test' });
  await json('secrets set', ['STRIPE', 's3cret']);
  await json('secrets list');
  await json('secrets delete', ['STRIPE', '--yes']);
  await json('domains add', ['shop.example.com']);
  await json('domains list');
  await json('mail set', ['info@shop.example.com']);
  await json('mail list');
  await json('mail delete', ['info@shop.example.com', '--yes']);
  assert.equal((await json('tcp set', [String(tcpPort)])).port, tcpPort);
  await json('tcp list');
  await json('tcp delete', [String(tcpPort), '--yes']);
  await json('domains remove', ['shop.example.com', '--yes']);
  assert.equal((await json('limits set', ['--client-rpm', '600', '--app-rpm', 'default'])).clientRpm, 600);
  await json('limits get');
  const page = join(cellar.directory, 'maintenance.html');
  writeFileSync(page, '<h1>Back at noon</h1>');
  const maintained = { enabled: true, html: '<h1>Back at noon</h1>' };
  assert.deepEqual(await json('maintenance on', ['--page', page]), maintained);
  assert.deepEqual(await json('maintenance off'), { ...maintained, enabled: false });
  assert.deepEqual(await json('maintenance on', ['--page', 'default']), { enabled: true, html: null });
  await json('maintenance off');
  assert.equal((await json('maintenance get')).enabled, false);
  const web = ['--root-directory', 'apps/web', '--build-command', 'default'];
  assert.equal((await json('builds set', web)).root_directory, 'apps/web');
  await json('builds set', ['--root-directory', 'default']);
  const migrate = ['--release-command', 'npm run migrate'];
  assert.equal((await json('builds set', migrate)).release_command, 'npm run migrate');
  await json('builds set', ['--release-command', 'default']);
  assert.equal((await json('builds set', ['--deploy-on', 'tags'])).deploy_on, 'tags');
  assert.equal((await json('builds get')).root_directory, null);
  await json('builds set', ['--deploy-on', 'main']);
  const account = (
    await cellar.call('POST', '/rpc', {
      jsonrpc: '2.0',
      id: 1,
      method: 'accounts.create',
      params: { name: 'Ada', email: 'ada@example.com' },
    })
  ).body.result.id;
  await json('collaborators set', [account, 'push']);
  await json('collaborators list');
  await json('collaborators remove', [account, '--yes']);
  const { id, key } = await json('keys create', ['laptop']);
  assert.equal((await cli('list --json', { token: key })).code, 0);
  await json('keys revoke', [id, '--yes']);
  const limited = await json('keys create', ['ci', '--scope', 'deploy', '--days', '90']);
  assert.equal(limited.scope, 'deploy');
  assert.ok(Date.parse(limited.expires_at) > Date.now() + 89 * 24 * 3_600_000);
  const { items: revoked } = await json('audit list', ['--via', 'cli', '--operation', 'keys.revoke']);
  assert.equal(revoked[0].details.id, id);
  const lines = (await cli('audit export --operation keys.revoke')).out.trim().split('\n');
  assert.deepEqual(JSON.parse(lines[0]!), revoked[0]);
  const { databases } = await json('storage list');
  const kept = (await cli('storage')).out.replaceAll(/ {2,}/g, '  ');
  for (const row of ['database  people  DB', 'namespace  -  KV  1 key', 'bucket  files  FILES'])
    assert.ok(kept.includes(`\n${row}  `), kept);
  const database = databases[0].id;
  await json('storage write', [database, "INSERT INTO people VALUES ('Ada')", '--yes']);
  assert.deepEqual((await json('storage query', [database, 'SELECT name FROM people'])).rows, [['Ada']]);
  const { sql } = await json('storage export', [database]);
  assert.match(sql, /Ada/);
  await json('storage import', [database, '--yes'], "INSERT INTO people VALUES ('Grace');");
  await servesCopy();
  assert.equal((await json('storage keys', ['sessions'])).items[0].key, 'a');
  assert.equal((await json('storage objects', ['files', 'images/'])).items.length, 1);
  const { key: snapshot } = await json('snapshot');
  assert.ok((await json('snapshots list')).items.some((each: { key: string }) => each.key === snapshot));
  assert.deepEqual((await json('snapshots verify')).damaged, []);
  await json('restore', [snapshot, '--yes']);
  await json('stats');
  await json('scale', ['1']);
  assert.deepEqual((await json('hosts list')).items, []);
  await json('rename', ['store']);
  assert.equal((await json('status')).slug, 'store', 'the remote of the folder has the new name');
  assert.equal(await json('delete', ['--app', 'store', '--yes']), null);
  assert.equal((await json('deleted')).items[0].slug, 'store');
  assert.equal((await json('undelete', ['store', '--name', 'shop-2'])).slug, 'shop-2');
  const login = await cli(['login', cellar.api, '--json'], { input: `${cellar.key}\n` });
  assert.equal(login.code, 0, login.said);
  operationsByName.get('accounts.me')!.output.parse(JSON.parse(login.out));
  const file = join(home, '.config/cellar/login.json');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const git = new URL(cellar.remote('asked'));
  git.username = '';
  git.password = '';
  const asking = { input: `protocol=http\nhost=${git.host}\n\n` };
  assert.equal((await cli(['git-credential', 'get'], asking)).out, '', 'git does not take the runner token');
  // A login with an API key serves git, whose address then needs no key.
  await cellar.create('asked');
  assert.equal((await cli(['login', cellar.api], { token: cellar.key })).code, 0);
  assert.equal((await cli(['git-credential', 'get'], asking)).out, `username=git\npassword=${cellar.key}\n`);
  const other = { input: 'protocol=http\nhost=git.example.com\n\n' };
  assert.equal((await cli(['git-credential', 'get'], other)).out, '');
  const env = { PATH: process.env.PATH, HOME: home, GIT_TERMINAL_PROMPT: '0' };
  execFileSync('git', ['ls-remote', git.href], { env, timeout: 60_000 });
  const left = commands
    .filter((each) => each.answers !== null && !parsed.has(each))
    .map(({ words }) => words);
  // `hosts` commands need several hosts, and `alerts test` a reachable webhook. The output of `login` is parsed above.
  assert.deepEqual(left.toSorted(), ['alerts test', 'hosts drain', 'hosts remove', 'login']);
});

/** Asserts that `cellar dev --remote-data` serves the folder's code on a copy of the deployed app's storage. */
async function servesCopy(): Promise<void> {
  const dev = spawn(join(ROOT, 'cli/cellar'), ['dev', '--remote-data', '--port', '0'], {
    cwd: folder,
    env: {
      ...COMPILE_CACHE_ENV,
      PATH: process.env.PATH,
      HOME: home,
      CELLAR_URL: cellar.api,
      CELLAR_TOKEN: cellar.token,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  dev.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  await eventually(() => /http:\/\/localhost:\d+/.test(said), 'it to serve');
  const [, port] = /http:\/\/localhost:(\d+)/.exec(said)!;
  const answer = await fetch(`http://127.0.0.1:${port}/people`);
  assert.deepEqual(await answer.json(), [['Ada'], ['Grace']], said);
  const kept = await fetch(`http://127.0.0.1:${port}/kept`);
  assert.deepEqual(await kept.json(), ['b', 'b', true], said);
  dev.kill('SIGINT');
  await once(dev, 'exit');
}

test('a terminal gets tables, and a followed log is one line of JSON for each log line', async () => {
  await cellar.deploy('talker', 'hello', {
    'index.js': 'export default { fetch({ url }) { console.log("said", url); return new Response("ok"); } };',
  });
  const shown = await cli('list');
  assert.match(shown.out, /^APP +STATUS +DEPLOYED +URL\ntalker +running/);
  assert.match((await cli('logs --app talker')).said, /^There are no such lines/);
  // No line yet; then lines, but none that matches.
  for (const [path, more] of [
    ['/first', ''],
    ['/second', ' --json'],
  ]) {
    const stop = new AbortController();
    const lines: string[] = [];
    const following = cli(`logs -f --app talker --search ${path}${more}`, {
      signal: stop.signal,
      onOut: (text) => lines.push(text),
    });
    await eventually(async () => {
      await cellar.get('talker', path);
      return lines.length > 0;
    }, 'a line');
    stop.abort();
    assert.equal((await following).said, '', 'nothing is missing');
    if (more === '') assert.match(lines[0]!, /info +said http.*\/first/);
    else operationsByName.get('logs.stream')!.output.parse(JSON.parse(lines[0]!));
  }
  const called = await cli(['call', 'apps.get', '{"id": "talker"}']);
  assert.equal(JSON.parse(called.out).slug, 'talker');
});

test('an error exits with its documented code, and names the next command', async () => {
  const ends = async (line: string | readonly string[], code: number, said: RegExp, options = {}) => {
    const ended = await cli(line, options);
    assert.deepEqual([ended.code, ended.out], [code, ''], `${line}: ${ended.said}`);
    assert.match(ended.said, said);
  };
  await ends('status --app nobody', 4, /There is no app nobody\.\nNext: cellar list/);
  await ends('status --app talker', 3, /token is wrong.*\nNext: cellar login/, { token: 'x'.repeat(20) });
  await ends('stats', 5, /runner token.*\nNext: cellar login/, { token: cellar.key });
  await ends('login http://127.0.0.1:3', 7, /127\.0\.0\.1:3 cannot be reached/, { token: 'x'.repeat(20) });
  await ends('create talker', 6, /Next: cellar list/);
  await ends('create UPPER', 2, /slug:.*\nNext: cellar create --help/);
  await ends('delete --app talker', 8, /the app talker .*\nNext: cellar delete --app talker --yes/);
  await ends('restore x --app talker', 8, /all storage of the app talker by the storage in x\?/);
  const sql = "DELETE FROM a WHERE b = 'c'";
  await ends(
    ['storage', 'write', 'DB', sql, '--app', 'talker'],
    8,
    /Next: cellar storage write DB 'DELETE FROM a WHERE b = '\\''c'\\''' --app talker --yes\n/,
  );
  await ends('status', 2, /Which app\?.*\nNext: cellar init/s, { in: home });
  await ends('logs --level loud', 2, /Allowed choices are debug/);
  await ends('stauts', 2, /Did you mean one of stats, status.*\nNext: cellar help/);
  await ends('storage tables x', 2, /unknown command 'tables'\nNext: cellar storage --help/);
  await ends('deploy --wrong', 2, /unknown option '--wrong'\nNext: cellar deploy --help/);
  await ends('call apps.nothing', 2, /no operation apps\.nothing/);
  await ends('call apps.get', 2, /apps\.get needs the param id/);
  await ends('init UPPER', 2, /lower-case/);
});

test('init keeps the configuration of a folder in every format', async (t) => {
  const project = temporaryDirectory(t);
  const path = join(project, 'wrangler.jsonc');
  for (const text of ['{ "name": "one-line", "main": "index.js" }', '{"main":"index.js"}', '// none']) {
    writeFileSync(path, text);
    writeFileSync(join(project, 'index.js'), '');
    const { code, said } = await cli(['init', ...(text.includes('name') ? [] : ['one-line'])], {
      in: project,
    });
    assert.equal(code, 0, said);
    assert.equal(readFileSync(path, 'utf8'), text);
  }
});

test('a copy of an app’s storage needs the role push', async () => {
  const call = async (method: string, params: object) =>
    JSON.parse((await cli(['call', method, JSON.stringify(params)])).out);
  const { id: account } = await call('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const { key } = await call('keys.create', { account });
  const statusOf = async (token: string) => {
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`${cellar.api}/v1/apps/talker/storage/copy`, { headers });
    await answer.body?.cancel();
    return answer.status;
  };
  assert.deepEqual([await statusOf('wrong'), await statusOf(key)], [401, 403]);
  await call('collaborators.set', { id: 'talker', account, role: 'view' });
  assert.equal(await statusOf(key), 403);
  await call('collaborators.set', { id: 'talker', account, role: 'push' });
  assert.equal(await statusOf(key), 200);
});

test('the program prints its version and help, names an unreachable or invalid address, and completes words in bash', () => {
  const program = join(ROOT, 'cli/cellar');
  const env = {
    ...COMPILE_CACHE_ENV,
    PATH: process.env.PATH,
    HOME: home,
    CELLAR_URL: 'http://127.0.0.1:3',
    CELLAR_TOKEN: 'x',
  };
  const runIt = (...words: string[]) =>
    execFileSync(program, words, { encoding: 'utf8', env, stdio: 'pipe' });
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  assert.equal(runIt('--version'), `${version}\n`);
  assert.match(runIt('env', '--help'), /cellar env/);
  assert.throws(
    () => runIt('list'),
    (error: { status: number; stderr: string }) =>
      error.status === 7 && /127\.0\.0\.1:3 cannot be reached: ECONNREFUSED/.test(error.stderr),
  );
  assert.throws(
    () => {
      env.CELLAR_URL = 'localhost:8787';
      runIt('list');
    },
    (error: { status: number; stderr: string }) =>
      error.status === 2 && /CELLAR_URL is localhost:8787, .* http:\/\/localhost:8787\./.test(error.stderr),
  );
  const bash = runIt('completion', 'bash');
  const asked = (...words: string[]) =>
    execFileSync(
      'bash',
      [
        '-c',
        `${bash}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cellar; echo "\${COMPREPLY[*]}"`,
        'bash',
        'cellar',
        ...words,
      ],
      { encoding: 'utf8' },
    ).trim();
  assert.equal(asked('depl'), 'deploy deploys');
  assert.equal(asked('env', 's'), 'set');
  assert.equal(asked('env', 'set', '--a'), '--app');
  assert.equal(asked('completion', 'z'), 'zsh');
});

/** The words that completion must offer after each line. */
const offered: [line: string, words: string[]][] = [
  ['cellar depl', ['deploy', 'deploys']],
  ['cellar env s', ['set']],
  ['cellar env set --a', ['--app']],
  ['cellar completion z', ['zsh']],
  ['cellar list --a', []],
  ['cellar keys list --a', ['--account']],
  ['cellar env list x', []],
];
const isThere = (shell: string) => spawnSync(shell, ['-c', 'true']).status === 0;

test('zsh completes words', {
  skip: !isThere('zsh') && 'zsh is not installed: apt-get install zsh',
}, () => {
  for (const [line, words] of offered) {
    const given = line.split(' ').map((word) => `'${word}'`);
    // The real shell without its line editor: the script sets the words, and stubs print the completions.
    const script = `compdef() { :; }; _files() { :; }
_describe() { local each; for each in "\${(@P)2}"; do [[ $each == \${words[CURRENT]}* ]] && print -r -- "\${each%%:*}"; done }
source ${JSON.stringify(completionFile('zsh'))}; words=(${given.join(' ')}); CURRENT=${given.length}; _cellar; true`;
    const { stdout, stderr } = spawnSync('zsh', ['-f', '-c', script], { encoding: 'utf8' });
    assert.deepEqual([stdout.split('\n').filter(Boolean), stderr], [words, ''], line);
  }
});

test('fish completes words', {
  skip: !isThere('fish') && 'fish is not installed: apt-get install fish',
}, () => {
  for (const [line, words] of offered) {
    const script = `source ${JSON.stringify(completionFile('fish'))}; complete -C '${line}'`;
    const env = { ...process.env, HOME: home };
    const { stdout, stderr } = spawnSync('fish', ['--no-config', '-c', script], { encoding: 'utf8', env });
    const found = stdout.split('\n').filter(Boolean);
    assert.deepEqual([found.map((each) => each.split('\t')[0]).sort(), stderr], [words, ''], line);
  }
});

/** Writes the completion of a shell to a file and returns its path. */
function completionFile(shell: 'zsh' | 'fish'): string {
  const file = join(home, `completion.${shell}`);
  writeFileSync(file, completion(shell, commands));
  return file;
}

function readGit(...words: string[]): string {
  return execFileSync('git', words, { cwd: folder, encoding: 'utf8' }).trim();
}
