// The sockets of a running Cellar, and what other users of the machine reach there: users of apps and builds.
// Runs as root too.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { asUser, type User } from '../../runtime/isolation/users.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { type Listening, listeningSockets } from '../support/e2e/sockets.ts';
import { liveFiles } from '../support/live-files.ts';
import { cells, descendants, eventually } from '../support/processes.ts';
import { NEEDS_USERS } from '../support/users.ts';

/** A Worker that returns `request.cf`. */
const CF_WORKER = 'export default { fetch: ({ cf }) => Response.json(cf ?? null) };';
/** The build gives the app a build user. */
const FILES = { 'index.js': CF_WORKER, 'package.json': '{"scripts": {"build": "true"}}' };

/** An app with every binding that has a socket: buckets, AI, e-mails, another app, a queue, a Workflow. */
const CONNECTED = {
  'index.js': `
    import { WorkflowEntrypoint } from 'cloudflare:workers';
    export class Flow extends WorkflowEntrypoint { async run() {} }
    export default { fetch: () => new Response('ok'), queue() {} };`,
  'wrangler.jsonc': JSON.stringify({
    name: 'connected',
    main: 'index.js',
    compatibility_date: '2026-10-01',
    r2_buckets: [{ binding: 'BUCKET', bucket_name: 'files' }],
    ai: { binding: 'AI' },
    send_email: [{ name: 'MAIL' }],
    services: [{ binding: 'MINE', service: 'mine' }],
    workflows: [{ binding: 'FLOW', name: 'flow', class_name: 'Flow' }],
    queues: { producers: [{ binding: 'QUEUE', queue: 'q' }], consumers: [{ queue: 'q' }] },
  }),
};

const home = mkdtempSync(join(tmpdir(), 'cellar-home-'));
const cellar = new Cellar({
  HOME: home,
  XDG_CONFIG_HOME: join(home, '.config'),
  RUNNER_AI_URL: 'http://127.0.0.1:9/v1',
  RUNNER_SMTP_URL: 'smtp://127.0.0.1:9',
  RUNNER_SMTP_FROM: 'cellar@example.com',
});
let id = '';
let other = '';
let connected = '';

before(async () => {
  await cellar.start();
  id = await cellar.deploy('mine', 'hello', FILES);
  other = await cellar.deploy('other', 'hello', { 'index.js': CF_WORKER });
  connected = await cellar.deploy('connected', 'hello', CONNECTED);
  for (const slug of ['mine', 'other', 'connected']) assert.equal((await cellar.get(slug)).status, 200);
  // The first visit starts the control UI's server.
  const ui = await fetch(`http://localhost:${cellar.edgePort}/`, { headers: { accept: 'text/html' } });
  assert.equal(ui.status, 200);
  await ui.body?.cancel();
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  rmSync(home, { recursive: true, force: true });
});

const isPath = ({ at }: Listening): boolean => 'path' in at;
const pathOf = ({ at }: Listening): string => ('path' in at ? at.path : '');
const portOf = ({ at }: Listening): number => ('port' in at ? at.port : 0);

/** Returns the paths of all socket files. Some sockets were bound to another path and moved. */
function socketFiles(): string[] {
  return liveFiles(cellar.data, '-type', 's').toSorted();
}

function sockets(): Listening[] {
  return listeningSockets([cellar.pid, ...descendants(cellar.pid).map(({ pid }) => pid)]);
}

test('Cellar listens only on its two public ports and on unix sockets in its data directory', async () => {
  const ports = sockets().filter((socket) => !isPath(socket));
  const known = [Number(new URL(cellar.api).port), cellar.edgePort];
  assert.deepEqual(ports.map(portOf).toSorted(), known.toSorted());

  const below = (...names: string[]) => names.map((name) => join(cellar.data, name)).toSorted();
  const control = ['control/host.sock', 'spawner/streams.sock'];
  const own = [
    'ui/http.sock',
    ...['database', 'http', 'sign-in'].map((name) => `control/${name}.sock`),
    ...[id, other, connected].flatMap((app) => [`run/${app}/health.sock`, `run/${app}/http.sock`]),
  ];
  const more = ['ai', 'mail', 'queues', 'services'].map((name) => `run/${connected}/${name}.sock`);
  const files = below(...control, ...own, ...more, `buckets/${connected}/r2.sock`);
  // The process of a trial start, which tests a new release, may still be ending.
  await eventually(() => socketFiles().length === files.length, 'no other socket is left');
  assert.deepEqual(socketFiles(), files);
  // The kernel reports the path of `bind`, which differs from the file's path for moved sockets.
  const made = [...control, `run/${connected}/services.sock`, ...Array<string>(3).fill('doors/s')];
  const moved = [...own, `run/${connected}/queues.sock`].map((name) =>
    join(dirname(name), 'new', basename(name)),
  );
  assert.deepEqual(sockets().filter(isPath).map(pathOf).toSorted(), below(...made, ...moved));
});

test("an app's Worker gets no data about the host's process", async () => {
  const expected = '{"httpProtocol":"HTTP/1.1","colo":"CEL"}';
  assert.equal((await cellar.get('mine')).text, expected);
  assert.equal((await cellar.get('mine', '/', { headers: { 'x-cellar-cf': '{"a":1}' } })).text, expected);
});

test('the edge routes a path the same in all its spellings', async () => {
  const { port } = new URL(cellar.api);
  const ask = async (path: string): Promise<[number, string]> => {
    const headers = { host: 'localhost', 'x-forwarded-host': 'mine.localhost' };
    const sent = request({ port, host: '127.0.0.1', path, headers, agent: false }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return [response.statusCode!, await text(response)];
  };
  const answer = await ask('/v1/edge/wake');
  assert.deepEqual(answer, [200, '{"status":"ok"}']);
  for (const path of [
    '/v1/x/../edge/wake',
    '/v1/./edge/wake',
    '/v1/x/%2e%2E/edge/wake',
    '/v1/x/.%2e/edge/wake',
  ])
    assert.deepEqual(await ask(path), answer, path);
  for (const path of ['//v1/edge/wake', '/v1//edge/wake', '/v1/%65dge/wake', '/v1/edge/../apps'])
    assert.equal((await ask(path))[0], 401, path);
});

test('Cellar writes nothing to the home directory of the user who starts it', () => {
  assert.deepEqual(
    readdirSync(home).filter((name) => name !== '.npm'),
    [],
  );
});

test(
  'users of apps and builds reach no unix socket of others, and no more than strangers at a port',
  NEEDS_USERS,
  () => {
    const uidOf = (app: string) =>
      Number(/^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${cells(app)[0]!.pid}/status`, 'latin1'))![1]);
    const build = statSync(join(cellar.data, 'caches', id)).uid;
    const apps = { [uidOf(id)]: id, [uidOf(connected)]: connected };
    const uids = [build, ...Object.keys(apps).map(Number)];
    assert.equal(new Set([...uids, process.getuid!()]).size, 4);
    const files = new Set([...socketFiles(), ...sockets().filter(isPath).map(pathOf)]);
    const ports = sockets().filter((socket) => !isPath(socket));
    const routes = ['/v1/apps', '/internal/reconcile', '/cdn-cgi/local/r2/s3/control/x'];
    for (const uid of uids) {
      // An app's process may connect to itself, and to the sockets of its own services.
      const others = [...files].filter((path) => !apps[uid] || !path.includes(`/${apps[uid]}/`));
      const asked = [
        ...others.map((path) => ({ at: { path }, path: '/', answer: /^(EACCES|ENOENT)$/ })),
        ...ports.flatMap((socket) =>
          routes.map((path) => ({
            at: { port: portOf(socket) },
            path,
            // With packet filter rules, these users cannot even connect.
            answer: /^HTTP\/1\.1 40[134] |^ECONNREFUSED$/,
          })),
        ),
      ];
      const answers = askAs({ uid, gid: uid }, asked);
      for (const [n, { at, path, answer }] of asked.entries())
        assert.match(answers[n]!, answer, `${uid} ${JSON.stringify(at)} ${path}`);
    }
  },
);

/** Sends requests as a user. Returns for each the head and the start of the body, or the error code. */
function askAs(user: User, asked: { at: { path: string } | { port: number }; path: string }[]): string[] {
  const script = `
    const asked = ${JSON.stringify(asked)};
    const ask = ({ at, path }) => new Promise((resolve) => {
      const socket = require('node:net').connect({ host: '127.0.0.1', ...at });
      const told = (text) => { resolve(text); socket.destroy(); };
      socket.setTimeout(120_000, () => told('TIMEOUT'));
      socket.on('error', ({ code }) => told(code));
      socket.on('data', (bytes) => told(String(bytes)));
      socket.write('GET ' + path + ' HTTP/1.1\\r\\nhost: localhost\\r\\n\\r\\n');
    });
    Promise.all(asked.map(ask)).then((answers) => console.log(JSON.stringify(answers)));`;
  const [file, ...words] = asUser(user);
  const { stdout, stderr } = spawnSync(file!, [...words, process.execPath, '-e', script], {
    cwd: '/',
    encoding: 'utf8',
    timeout: 180_000,
  });
  assert.equal(stderr, '');
  return JSON.parse(stdout) as string[];
}
