// `cellar dev` as a person runs it: in a folder, from a shell, without a Cellar.
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'undici';
import { readVariables } from '../../runtime/dev/project/variables.ts';
import { COMPILE_CACHE_ENV } from '../support/compiled.ts';
import { ownPort } from '../support/ports.ts';
import { descendants, eventually } from '../support/processes.ts';

const PROGRAM = fileURLToPath(new URL('../../cli/cellar', import.meta.url));
const CONFIG = `name = "shop"
main = "src/index.js"
compatibility_date = "2026-10-01"
[vars]
GREETING = "from the configuration"
[assets]
directory = "public"
[[d1_databases]]
binding = "DB"
database_name = "people"
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
[[services]]
binding = "CELLAR"
service = "cellar"
`;
const INDEX = `import { word } from './word.js';
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/boom') word(null);
    if (pathname === '/report') await env.CELLAR.log({ channel: 'signups' });
    if (pathname === '/add') {
      await env.DB.exec('INSERT INTO visits VALUES (1)');
      await env.FILES.put('a', 'kept');
    }
    const visits = await env.DB.prepare('SELECT count(*) AS n FROM visits').first('n');
    const file = await (await env.FILES.get('a'))?.text();
    return Response.json({ word: word('x'), greeting: env.GREETING, visits, file: file ?? null });
  },
};
`;
const WORD = (word: string) => `export function word(of) {
  if (of === null) throw new TypeError('no word');
  return '${word}';
}
`;

// This path is longer than that of a unix socket may be.
const folder = join(mkdtempSync(join(tmpdir(), 'cellar-dev-test-')), 'a-project-'.repeat(8));
let dev: Running;

/** A running `cellar dev`. */
class Running {
  readonly child: ChildProcess;
  /** The file with its output. */
  readonly #printed: string;
  readonly #port: number | null;

  /** @param printed path of the output file, relative to the folder */
  constructor(
    words: string[] = [],
    printed = '../printed',
    cwd = folder,
    env: NodeJS.ProcessEnv = {},
    port: number | null = null,
  ) {
    this.#port = port;
    this.#printed = join(cwd, printed);
    const to = openSync(this.#printed, 'w');
    this.child = spawn(PROGRAM, ['dev', '--port', String(port ?? 0), ...words], {
      cwd,
      env: { ...COMPILE_CACHE_ENV, PATH: process.env.PATH, HOME: tmpdir(), TMPDIR: tmpdir(), ...env },
      stdio: ['ignore', to, to],
    });
    closeSync(to);
  }

  get said(): string {
    return readFileSync(this.#printed, 'utf8');
  }

  async ready(): Promise<this> {
    await eventually(() => /http:\/\/localhost:\d+/.test(this.said), 'it to serve');
    return this;
  }

  get port(): number {
    return this.#port ?? Number(/http:\/\/localhost:(\d+)/.exec(this.said)![1]);
  }

  async get(path = '/', headers: Record<string, string> = {}): Promise<{ status: number; text: string }> {
    const client = new Client(`http://127.0.0.1:${this.port}`);
    try {
      const { statusCode, body } = await client.request({
        path,
        method: 'GET',
        headers: { host: 'localhost', ...headers },
      });
      return { status: statusCode, text: await body.text() };
    } finally {
      await client.close();
    }
  }

  /** Sends SIGINT, as a terminal does. */
  async end(): Promise<void> {
    this.child.kill('SIGINT');
    await eventually(() => this.child.exitCode !== null || this.child.signalCode !== null, 'it to end');
  }
}

/** Runs `end`, and waits until no process of `cellar dev` is left. */
async function endsAfter(end: () => unknown): Promise<void> {
  const below = descendants(dev.child.pid!).map(({ pid }) => pid);
  assert.ok(below.length >= 3, 'its process, a cell and the bundler');
  await end();
  await eventually(() => below.every((pid) => !existsSync(`/proc/${pid}/exe`)), 'no process');
}

function write(path: string, text: string): void {
  writeFileSync(join(folder, path), text);
}

/** Returns the symbolic links with short paths to the folder's data. */
function shortcuts(): string[] {
  const links = globSync(join(tmpdir(), 'cellar-dev-*/d'));
  return links.filter((link) => readlinkSync(link).startsWith(folder));
}

/** Writes a file, and waits until the new version serves. */
async function save(path: string, text: string): Promise<void> {
  const versions = () => dev.said.split('serves the saved change').length;
  const before = versions();
  write(path, text);
  await eventually(() => versions() > before, 'the next version');
}

before(async () => {
  for (const name of ['src', 'public', 'migrations']) mkdirSync(join(folder, name), { recursive: true });
  write('wrangler.toml', CONFIG);
  write('src/index.js', INDEX);
  write('src/word.js', WORD('first'));
  write('public/page.html', '<h1>A page</h1>');
  write('migrations/0001_visits.sql', 'CREATE TABLE visits (n);');
  execFileSync('git', ['init', '--quiet'], { cwd: folder });
  dev = await new Running(['--inspect', '0']).ready();
});
after(async () => {
  await dev.end();
  rmSync(join(folder, '..'), { recursive: true, force: true });
});

const answer = async () => JSON.parse((await dev.get()).text);

/** Writes a file in one step: a plain write first empties the file, which can be a change of its own. */
function writeAtOnce(path: string, text: string): void {
  const beside = join(folder, '../saved');
  writeFileSync(beside, text);
  renameSync(beside, path);
}

test('the app serves, and a saved change serves soon after', async () => {
  assert.deepEqual(await answer(), {
    word: 'first',
    greeting: 'from the configuration',
    visits: 0,
    file: null,
  });
  write('src/word.js', WORD('second'));
  await eventually(async () => (await answer()).word === 'second', 'what was saved');
});

test('a saved file of a hidden folder serves soon after', async () => {
  mkdirSync(join(folder, 'public/.well-known'));
  for (const text of ['first', 'second']) {
    write('public/.well-known/security.txt', text);
    await eventually(
      async () => (await dev.get('/.well-known/security.txt')).text === text,
      'what was saved',
    );
  }
});

test('a build or start that fails names the source position, and the version before serves until it is fixed', async () => {
  write('src/word.js', 'export function word( {\n');
  await eventually(() => /the build failed: src\/word\.js:2:1: /.test(dev.said), 'the error');
  assert.equal((await answer()).word, 'second');
  write('src/word.js', `${WORD('third')}\nnull.at();\n`);
  await eventually(() => /the app does not start: .*src\/word\.js:6:6/s.test(dev.said), 'the other error');
  assert.equal((await answer()).word, 'second');
  write('src/word.js', WORD('mended'));
  await eventually(async () => (await answer()).word === 'mended', 'the mended version');
});

test('secrets are read from .dev.vars, or else .env, also after a change', async () => {
  const names = [
    '.env',
    '.env.local',
    '.env.staging',
    '.env.staging.local',
    '.dev.vars',
    '.dev.vars.staging',
  ];
  const read: object[] = [];
  const other = join(folder, '../variables');
  mkdirSync(other);
  for (const [i, name] of names.entries()) {
    writeFileSync(join(other, name), `LAST=${name}\nNAME${i}=a`);
    read.push(readVariables(other, 'staging', assert.fail));
  }
  assert.deepEqual(read, [
    { LAST: '.env', NAME0: 'a' },
    { LAST: '.env.local', NAME0: 'a', NAME1: 'a' },
    { LAST: '.env.staging', NAME0: 'a', NAME1: 'a', NAME2: 'a' },
    { LAST: '.env.staging.local', NAME0: 'a', NAME1: 'a', NAME2: 'a', NAME3: 'a' },
    { LAST: '.dev.vars', NAME4: 'a' },
    { LAST: '.dev.vars.staging', NAME5: 'a' },
  ]);
  write('.env', 'GREETING="of the environment"\n');
  await eventually(async () => (await answer()).greeting === 'of the environment', 'the variable');
  write('.dev.vars', 'GREETING="a secret"\n');
  await eventually(async () => (await answer()).greeting === 'a secret', 'the secret');
});

test('a version that serves locally and that a deploy would refuse prints a warning', async () => {
  write('wrangler.toml', `${CONFIG}[triggers]\ncrons = ["0 0 1 1 *"]\n`);
  await eventually(
    () => /a deploy of this version would fail: .*no handler scheduled\(\)/.test(dev.said),
    'the warning',
  );
  assert.equal((await dev.get()).status, 200);
  assert.equal((await dev.get('/cdn-cgi/handler/scheduled')).status, 500, 'there is no handler');
  assert.equal((await dev.get('/cdn-cgi/handler/scheduled?cron=*+*+*+*+*')).status, 404);
  const foreign = await dev.get('/cdn-cgi/handler/scheduled', { 'sec-fetch-site': 'cross-site' });
  assert.equal(foreign.status, 403, 'no page of a website runs one');
  await save(
    'src/index.js',
    INDEX.replace('async fetch', "scheduled: ({ cron }) => console.log('ran ' + cron),\n  async fetch"),
  );
  assert.equal((await dev.get('/cdn-cgi/handler/scheduled?cron=0+0+1+1+*')).status, 200);
  await eventually(() => /ran 0 0 1 1 \*\n/.test(dev.said), 'its line');
  await save('src/index.js', INDEX);
  await save('wrangler.toml', CONFIG);
});

test('calls of the service cellar are printed, with what a Cellar would refuse', async () => {
  assert.equal((await dev.get('/report')).status, 200);
  await eventually(() => /log: \{"channel":"signups"\}\n\s+event: /.test(dev.said), 'the call');
});

test('errors of the app are printed with their source positions', async () => {
  assert.equal((await dev.get('/boom')).status, 500);
  await eventually(
    () => /TypeError: no word\n\s+at word \(src\/word\.js:2:\d+\)\n\s+at .*src\/index\.js:5/.test(dev.said),
    'the stack',
  );
});

test('a page in a browser reloads after a change, and other responses are unchanged', async () => {
  assert.equal((await dev.get('/page.html')).status, 307);
  assert.equal((await dev.get('/page')).text, '<h1>A page</h1>');
  const shown = await dev.get('/page', { 'sec-fetch-dest': 'document' });
  assert.match(shown.text, /^<h1>A page<\/h1><script>.*EventSource\('(\/[^']+)'\)/);
  const client = new Client(`http://127.0.0.1:${dev.port}`);
  const { body } = await client.request({
    path: '/.well-known/fleet/reload',
    method: 'GET',
    headers: { host: 'localhost' },
  });
  let events = '';
  body.setEncoding('utf8').on('data', (text: string) => {
    events += text;
  });
  body.on('error', () => {});
  await eventually(() => events.split('data: ').length === 2, 'the version');
  write('public/page.html', '<h1>Another</h1>');
  await eventually(() => events.split('data: ').length === 3, 'the next one');
  assert.equal((await dev.get('/page')).text, '<h1>Another</h1>');
  await client.destroy();
});

test('only local host names are answered, other sites cannot reach the debugger, and git ignores the data', async () => {
  const host = async (name: string) => (await dev.get('/', { host: name })).status;
  assert.deepEqual(
    await Promise.all(
      ['localhost', 'shop.localhost', '127.0.0.1', '[::1]', 'evil.example', 'localhost.evil.example'].map(
        host,
      ),
    ),
    [200, 200, 200, 200, 403, 403],
  );
  const [, port] = /debugger can connect to 127\.0\.0\.1:(\d+)/.exec(dev.said)!;
  const debugged = async (headers: Record<string, string>) => {
    const client = new Client(`http://127.0.0.1:${port}`);
    const { statusCode } = await client.request({ path: '/json', method: 'GET', headers });
    await client.destroy();
    return statusCode;
  };
  assert.equal(await debugged({}), 200);
  assert.equal(await debugged({ origin: 'https://evil.example' }), 403);
  assert.equal(await debugged({ host: 'evil.example' }), 403);
  const seen = execFileSync('git', ['status', '--porcelain', '--untracked-files=all'], {
    cwd: folder,
    encoding: 'utf8',
  });
  assert.ok(!seen.includes('.cellar'), seen);
  assert.equal((await dev.get('/.cellar/.gitignore')).status, 200, 'the Worker answers, no file');
});

test('a second one in the folder is refused; an interrupt leaves no process, and the next start has the same data', async () => {
  await dev.get('/add');
  const second = new Running([], '../printed by the second');
  await eventually(() => second.child.exitCode !== null, 'the second one to end');
  assert.equal(second.child.exitCode, 1);
  assert.match(second.said, /another `cellar dev`, process \d+, uses this folder/);
  assert.deepEqual(shortcuts().length, 1, 'of the first one');
  await endsAfter(() => dev.end());
  assert.deepEqual(shortcuts(), []);
  assert.ok(existsSync(join(folder, '.cellar/dev')));
  dev = await new Running().ready();
  const { visits, file } = await answer();
  assert.deepEqual([visits, file], [1, 'kept']);
});

test('the error for a port in use names its option, on either address of localhost and for the debugger', async () => {
  const other = join(folder, '../ports');
  mkdirSync(other);
  for (const [option, host] of [
    ['--port', '::1'],
    ['--inspect', '127.0.0.1'],
  ] as const) {
    const taken = createServer().listen(ownPort(), host);
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const failing = new Running([option, String(port)], '../printed-ports', other);
    await eventually(() => failing.child.exitCode !== null, 'it to end');
    taken.close();
    assert.match(failing.said, new RegExp(`port ${port} is in use: name another with ${option}\\n`));
  }
});

test('it ends with the process that started it', async () => {
  await endsAfter(() => dev.child.kill('SIGKILL'));
  dev = await new Running().ready();
  assert.equal((await answer()).visits, 1);
});

test('a build runs once for each save, whatever files it and the terminal write, and missing bindings are named', async () => {
  const built = join(folder, '../built');
  mkdirSync(join(built, 'src'), { recursive: true });
  const files = {
    'package.json': { scripts: { build: 'node build.mjs' } },
    'wrangler.json': {
      name: 'built',
      main: 'index.js',
      compatibility_date: '2026-10-01',
      assets: { directory: 'dist' },
      services: [{ binding: 'OTHER', service: 'another' }],
      durable_objects: { bindings: [{ name: 'ROOM', class_name: 'Room', script_name: 'chat' }] },
      queues: { producers: [{ binding: 'JOBS', queue: 'elsewhere' }] },
      tail_consumers: [{ service: 'watcher' }],
      ai: { binding: 'AI' },
    },
  };
  for (const [name, value] of Object.entries(files)) writeFileSync(join(built, name), JSON.stringify(value));
  const near = createServer((request, response) =>
    response.end(
      request.url === '/chat/completions'
        ? JSON.stringify({ choices: [{ message: { content: 'as asked' } }] })
        : 'from this machine',
    ),
  );
  await new Promise<void>((resolve) => near.listen(0, '127.0.0.1', resolve));
  const { port } = near.address() as AddressInfo;
  writeFileSync(
    join(built, 'index.js'),
    `export default { fetch: async ({ url }, env) => url.endsWith('/ask') ? Response.json(await env.AI.run('m', { prompt: 'x' })) : fetch('http://127.0.0.1:${port}') };`,
  );
  writeFileSync(join(built, 'src/page.html'), 'first');
  const code = `import { cpSync, rmSync } from 'node:fs';
rmSync('dist', { recursive: true, force: true });
cpSync('src', 'dist', { recursive: true });
// Longer than the debounce of changes.
setTimeout(() => {}, 100);`;
  writeFileSync(join(built, 'build.mjs'), code);
  const running = await new Running([], 'printed', built, {
    RUNNER_EGRESS_ALLOW: '127.0.0.1',
    RUNNER_AI_URL: `http://127.0.0.1:${port}`,
  }).ready();
  try {
    assert.match(
      running.said,
      /so the calls fail: OTHER \(the app another\), ROOM \(the class Room of the app chat\), the queue elsewhere, .*no tail events are sent to the tail Workers: watcher/,
    );
    assert.doesNotMatch(running.said, /AI server/);
    assert.equal(JSON.parse((await running.get('/ask')).text).response, 'as asked');
    assert.equal((await running.get('/page')).text, 'first');
    writeAtOnce(join(built, 'src/page.html'), 'second');
    await eventually(async () => (await running.get('/page')).text === 'second', 'what was built');
    rmSync(join(built, 'src/page.html'));
    await eventually(async () => (await running.get('/page')).text === 'from this machine', 'no page');
    assert.match(running.said, /src\/page\.html removed/);
    assert.equal(running.said.split('npm run build` ended').length - 1, 3, running.said);
    assert.doesNotMatch(running.said, /(dist|printed)\S* (saved|removed)/);
    assert.doesNotMatch(running.said, /tail_consumers: .* did not reach/);
  } finally {
    await running.end();
    near.close();
  }
});

test('at the root of a repository, a project in a subfolder is built once for each save, and has its own secrets', async () => {
  const repository = join(folder, '../repository');
  mkdirSync(join(repository, 'web/dist'), { recursive: true });
  const put = (path: string, text: string) => writeAtOnce(join(repository, path), text);
  put('.dev.vars', 'WORD=of the root');
  put('web/.dev.vars', 'WORD=first');
  put('web/wrangler.json', '{ "name": "web", "main": "dist/index.js", "compatibility_date": "2026-10-01" }');
  put('web/package.json', '{ "scripts": { "build": "node build.mjs" }, "dependencies": { "a": "1.0.0" } }');
  mkdirSync(join(repository, 'web/node_modules'));
  // Each build writes something else, and takes longer than the debounce of changes.
  put(
    'web/build.mjs',
    `import { writeFileSync } from 'node:fs';
writeFileSync('dist/index.js', 'export default { fetch: (_, env) => new Response(env.WORD) }; // ' + process.hrtime.bigint());
setTimeout(() => {}, 100);`,
  );
  const running = await new Running([], '../printed-repository', repository).ready();
  try {
    assert.equal((await running.get()).text, 'first');
    put('web/.dev.vars', 'WORD=second');
    await eventually(async () => (await running.get()).text === 'second', 'the changed secret');
    assert.equal(running.said.split('npm run build` ended').length - 1, 2, running.said);
    assert.doesNotMatch(running.said, /dist\S* (saved|removed)|none is installed/);
  } finally {
    await running.end();
  }
});

test('an e-mail reaches email(), and secrets of a Secrets Store come from .dev.vars', async () => {
  const mailed = join(folder, '../mailed');
  mkdirSync(mailed);
  const config = {
    ...{ name: 'mailed', main: 'index.js', compatibility_date: '2026-10-01' },
    secrets_store_secrets: ['KEY', 'ABSENT'].map((binding) => ({
      binding,
      store_id: 'demo',
      secret_name: binding.toLowerCase(),
    })),
    tail_consumers: [{ service: 'my-logs' }],
  };
  writeFileSync(join(mailed, 'wrangler.json'), JSON.stringify(config));
  writeFileSync(join(mailed, '.dev.vars'), 'KEY=stored');
  writeFileSync(
    join(mailed, 'index.js'),
    `const got = [];
export default {
  fetch: async ({ url }, env) => {
    const name = new URL(url).pathname.slice(1);
    return name ? new Response(await env[name].get().catch(({ message }) => message)) : Response.json(got);
  },
  async email(message) {
    const { from, to } = message;
    if (to.startsWith('nobody@')) return message.setReject('nobody is here');
    if (to.startsWith('fails@')) throw new Error('it failed');
    got.push([from, to, message.headers.get('subject'), (await new Response(message.raw).text()).length]);
    await message.forward('boss@other.example');
    await message.reply({ from: to, subject: 'Thanks', text: 'We have it.' });
  },
};`,
  );
  const running = await new Running([], 'printed', mailed).ready();
  const raw = 'From: ann@mail.example\r\nSubject: Hello\r\nMessage-ID: <1@mail.example>\r\n\r\nHi\r\n';
  const send = async (query: string, body = raw, headers = {}) => {
    const client = new Client(`http://127.0.0.1:${running.port}`);
    const path = `/cdn-cgi/handler/email?${query}`;
    const options = { path, method: 'POST', body, headers: { host: 'localhost', ...headers } } as const;
    const answer = await client.request(options);
    const text = await answer.body.text();
    await client.close();
    return [answer.statusCode, text.trim()];
  };
  try {
    assert.match(running.said, /no tail events are sent to the tail Workers: my-logs\n/);
    assert.match(running.said, /secrets_store_secrets: \.dev\.vars has no ABSENT/);
    assert.doesNotMatch(running.said, /KEY is a binding's name/);
    assert.equal((await running.get('/KEY')).text, 'stored');
    assert.match((await running.get('/ABSENT')).text, /"absent" not found/);
    const query = 'from=ann@mail.example&to=info@shop.example';
    assert.deepEqual(await send(query), [200, 'The app has accepted the e-mail.']);
    assert.deepEqual(JSON.parse((await running.get()).text), [
      ['ann@mail.example', 'info@shop.example', 'Hello', raw.length],
    ]);
    assert.match(running.said, /not sent here: an e-mail from info@shop\.example to boss@other\.example/);
    assert.match(running.said, /not sent here: an e-mail from info@shop\.example to ann@mail\.example/);
    assert.deepEqual(await send('to=nobody@shop.example'), [
      400,
      'The app has rejected the e-mail: nobody is here',
    ]);
    assert.deepEqual(await send('to=fails@shop.example'), [500, 'The e-mail failed: the app failed']);
    await eventually(() => /it failed/.test(running.said), 'the error in the log');
    assert.equal((await send('to=info'))[0], 400);
    assert.equal((await send(query, 'no e-mail'))[0], 400);
    assert.equal((await send(query, raw, { 'sec-fetch-site': 'cross-site' }))[0], 403);
    assert.equal((await running.get(`/cdn-cgi/handler/email?${query}`)).status, 400);
    writeFileSync(join(mailed, '.dev.vars'), 'KEY=changed');
    await eventually(async () => (await running.get('/KEY')).text === 'changed', 'the changed secret');
  } finally {
    await running.end();
  }
});

test('requests wait until the first version serves or has failed', async () => {
  const project = join(folder, '..', 'waits');
  mkdirSync(project);
  const put = (path: string, text: string) => writeFileSync(join(project, path), text);
  // The build writes a file when it starts, and waits for another file.
  const build = `const { existsSync, writeFileSync } = require('node:fs');
writeFileSync('../begun', '');
setInterval(() => existsSync('../go') && process.exit(), 20);`;
  put('build.cjs', build);
  put('wrangler.toml', 'name = "waits"\nmain = "index.js"\ncompatibility_date = "2026-10-01"\n');
  put('package.json', JSON.stringify({ scripts: { build: 'node build.cjs' } }));
  put(
    'index.js',
    "export default { fetch: async (request) => new Response('got ' + (await request.text())) };",
  );
  const begun = join(project, '../begun');
  const go = join(project, '../go');
  /** Starts `cellar dev`, and sends a request while the first version is built. */
  const askEarly = async (): Promise<{ status: number; text: string }> => {
    for (const path of [begun, go]) rmSync(path, { force: true });
    const waiting = new Running([], '../printed-waits', project, {}, ownPort());
    try {
      await eventually(() => existsSync(begun), 'the build to begin');
      const client = new Client(`http://127.0.0.1:${waiting.port}`);
      const answers = client.request({
        path: '/',
        method: 'POST',
        headers: { host: 'localhost' },
        body: 'this',
      });
      const early = await Promise.race([
        answers.then(() => 'answered'),
        once(client, 'connect').then(() => 'held'),
      ]);
      assert.equal(early, 'held');
      writeFileSync(go, '');
      const { statusCode, body } = await answers;
      const text = await body.text();
      await client.close();
      return { status: statusCode, text };
    } finally {
      await waiting.end();
    }
  };
  assert.deepEqual(await askEarly(), { status: 200, text: 'got this' });
  put('index.js', 'export default {');
  const failed = await askEarly();
  assert.equal(failed.status, 500);
  assert.match(failed.text, /The app has not started.*index\.js/s);
});

test('Next.js that only a deploy can set up is refused, and the folder stays as it is', async () => {
  const project = join(folder, '..', 'plain-next');
  mkdirSync(project);
  const manifest = { scripts: { build: 'next build' }, dependencies: { next: '16.4.6' } };
  writeFileSync(join(project, 'package.json'), JSON.stringify(manifest));
  const next = new Running([], '../printed-next', project);
  try {
    await eventually(
      () => /only a deploy adds its adapter\. Run .*`npm run dev`/.test(next.said),
      'the refusal',
    );
  } finally {
    await next.end();
  }
  assert.deepEqual(
    readdirSync(project).filter((name) => name !== '.cellar'),
    ['package.json'],
  );
});

test('functions/ of a Pages project are compiled at the start and at each save', async () => {
  const pages = join(folder, '../pages');
  mkdirSync(join(pages, 'functions'), { recursive: true });
  writeFileSync(join(pages, 'index.html'), 'the page');
  const code = (word: string) => `export const onRequest = () => new Response('${word}');\n`;
  writeFileSync(join(pages, 'functions/hello.js'), code('first'));
  const running = await new Running([], '../printed-pages', pages).ready();
  try {
    assert.equal((await running.get('/hello')).text, 'first', running.said);
    assert.equal((await running.get('/')).text, 'the page');
    writeFileSync(join(pages, 'functions/hello.js'), code('second'));
    await eventually(async () => (await running.get('/hello')).text === 'second', 'the saved function');
    rmSync(join(pages, 'functions'), { recursive: true });
    await eventually(async () => (await running.get('/hello')).text !== 'second', 'no function');
  } finally {
    await running.end();
  }
});
