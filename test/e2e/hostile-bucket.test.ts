// Hostile apps and builds of a Cellar with a bucket. They find no key of the bucket, reach no other app's data, and slow no
// other app.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { appKeys } from '../../runtime/bucket/app-keys.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { liveFiles } from '../support/live-files.ts';
import { NEEDS_SANDBOX } from '../support/sandbox.ts';
import { NEEDS_USERS } from '../support/users.ts';

const KEYS = { accessKey: 'id-of-the-real-key', secretKey: 'secret-of-the-real-key' };
const PREFIX = 'of/cellar/';
const store = await new MemoryStore().start();
const settings = { ...bucketSettings({ ...store.place(PREFIX), ...KEYS }), RUNNER_STORAGE: 'bucket' };
const cellar = new Cellar(settings);
const rpc = rpcOf(cellar);

/** Prints whatever an escaped build would look for. */
const SEARCH = `
env
for each in /proc/[0-9]*; do cat $each/environ $each/cmdline 2>/dev/null | tr '\\0' '\\n'; done
find / -xdev \\( -name cluster-key -o -name secrets-key -o -name host-secret -o -name host.sqlite \\) 2>/dev/null
for each in "$@"; do cat "$each" 2>/dev/null; done
true
`;
/** A Worker that returns all that its code sees of its process: variables, names of bindings, and some files. */
const LOOKING = `
import process from 'node:process';
import { env } from 'cloudflare:workers';
import * as fs from 'node:fs';
export default { fetch() {
  const said = [];
  const look = (find) => { try { said.push(find()); } catch (error) { said.push(String(error)); } };
  look(() => JSON.stringify(process.env));
  look(() => Object.keys(env).join());
  for (const path of ['/proc/self/environ', '/proc/1/environ', '/etc/passwd'])
    look(() => fs.readFileSync(path, 'utf8'));
  return new Response(said.join('\\n'));
} };`;

let greedy = '';
let neighbour = '';
before(async () => {
  await cellar.start();
  const config = JSON.parse(readFileSync(new URL('../apps/hostile/wrangler.jsonc', import.meta.url), 'utf8'));
  greedy = await cellar.deploy('greedy', 'hostile', {
    'wrangler.jsonc': JSON.stringify({ ...config, services: [] }),
  });
  neighbour = await cellar.deploy('neighbour', 'bucket');
  await cellar.get('greedy', '/');
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
});

/** All keys that only the host, the proxy or another app may have. */
function secrets(own: string): string[] {
  const others = [greedy, neighbour, 'control'].filter((id) => id !== own);
  const derived = others.flatMap((id) => {
    const { secretKey, objectsSecretKey, clusterKey } = appKeys(settings.RUNNER_CLUSTER_KEY, id);
    return [secretKey, objectsSecretKey, clusterKey];
  });
  const files = ['secrets-key', 'host-secret', 'sign-in-key', 'token'].map((name) =>
    readFileSync(join(cellar.data, name), 'utf8').trim(),
  );
  return [KEYS.secretKey, settings.RUNNER_CLUSTER_KEY, ...derived, ...files];
}

function requireNone(text: string, own: string): void {
  for (const secret of secrets(own)) assert.ok(!text.includes(secret), `it found ${secret}`);
}

/** Returns the environment of an app's process. */
function environmentOf(id: string): Record<string, string> {
  const pid = readFileSync(join(cellar.data, 'run', id, 'cell.pid'), 'utf8').split(/\s/)[0];
  const text = readFileSync(`/proc/${pid}/environ`, 'utf8');
  return Object.fromEntries(
    text.split('\0').map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]),
  );
}

test('an app reaches neither the proxy nor the store, and sees no key of the bucket', async (t) => {
  const proxy = new URL(environmentOf(greedy).AWS_ENDPOINT_URL!).port;
  const ports = [proxy, new URL(store.endpoint).port];
  const places = ['127.0.0.1', '0.0.0.0', 'localhost', '[::ffff:127.0.0.1]'].flatMap((host) =>
    ports.map((port) => `${host}:${port}`),
  );
  const sockets = globSync(join(cellar.data, '{run,control,buckets,ui,doors}', '**', '*.sock'));
  const query = new URLSearchParams([
    ...places.map((place) => ['to', place]),
    ...sockets.map((socket) => ['socket', socket]),
  ]);
  const asked = store.asked.length;
  const { tried, reached, said } = JSON.parse((await cellar.get('greedy', `/out?${query}`)).text);
  t.diagnostic(`${tried} ways`);
  assert.deepEqual(reached, []);
  requireNone(said.join(), '');
  const strange = store.asked.slice(asked).filter(({ key }) => !key.startsWith(PREFIX));
  assert.deepEqual(strange, []);
  await cellar.deploy('looking', 'hello', {
    'index.js': LOOKING,
    'wrangler.json': JSON.stringify({
      main: 'index.js',
      compatibility_date: '2026-10-01',
      compatibility_flags: ['nodejs_compat'],
    }),
  });
  const { status, text } = await cellar.get('looking');
  assert.equal(status, 200, text);
  requireNone(text, '');
  assert.doesNotMatch(text, /AWS_|root:/);
});

test('a build finds no key of the bucket, in no file, environment or process', NEEDS_SANDBOX, async () => {
  const files = ['control', 'importing', 'moving', 'restoring'].map((name) => join(cellar.data, name));
  const paths = ['cluster-key', 'secrets-key', 'host.sqlite', 'token', 'host-secret'].map((name) =>
    join(cellar.data, name),
  );
  const id = await cellar.deploy('builder', 'hello', {
    'search.sh': SEARCH,
    'package.json': JSON.stringify({ scripts: { build: `sh search.sh ${[...paths, ...files].join(' ')}` } }),
  });
  const { items } = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body;
  const { log } = (await cellar.call('GET', `/v1/apps/${id}/deploys/${items[0].id}/log`)).body;
  assert.match(log, /PATH=/);
  requireNone(log, '');
  assert.doesNotMatch(log, /AWS_|RUNNER_/);
});

test('the user of an app reaches no file of the host or of others', NEEDS_USERS, () => {
  const status = readFileSync(
    `/proc/${readFileSync(join(cellar.data, 'run', greedy, 'cell.pid'), 'utf8').split(/\s/)[0]}/status`,
    'utf8',
  );
  const uid = /^Uid:\s+(\d+)/m.exec(status)![1]!;
  const words = ['--reuid', uid, '--regid', uid, '--clear-groups', 'sh', '-c'];
  const reached = execFileSync('setpriv', [
    ...words,
    `find "$1" \\( -readable -o -writable \\) 2>/dev/null; true`,
    ...['sh', cellar.data],
  ]).toString();
  const others = reached.split('\n').filter((path) => path !== '' && !path.includes(greedy));
  assert.deepEqual(others, []);
  // The user cannot list these directories, so the test tries the paths below them by name.
  const all = liveFiles(cellar.data).filter((path) => !path.includes(greedy));
  const open = execFileSync(
    'setpriv',
    [
      ...words,
      'while IFS= read -r path; do if [ -r "$path" ] || [ -w "$path" ]; then echo "$path"; fi; done',
    ],
    { input: `${all.join('\n')}\n` },
  ).toString();
  assert.deepEqual(open, '');
});

test('300 concurrent bucket calls of an app slow no other app, in the bucket or not', async (t) => {
  const here = await cellar.create('here');
  await rpc('apps.move', { id: here, to: 'local' });
  await cellar.deployAgain('here', 'hello');
  const kept = () => cellar.get('neighbour', '/kept.txt');
  assert.equal((await cellar.get('neighbour', '/kept.txt', { method: 'PUT', body: 'mine' })).status, 200);
  store.faults = { delayMs: 5 };
  const harm = cellar.get('greedy', '/bucket').catch(() => null);
  const slowest = { bucket: 0, local: 0 };
  let count = 0;
  for (const end = performance.now() + 5_000; performance.now() < end; await sleep(20)) {
    let asked = performance.now();
    assert.equal((await kept()).text, 'mine');
    slowest.bucket = Math.max(slowest.bucket, performance.now() - asked);
    asked = performance.now();
    assert.equal((await cellar.get('here')).status, 200);
    slowest.local = Math.max(slowest.local, performance.now() - asked);
    count++;
  }
  t.diagnostic(`${count} answers, the slowest ${JSON.stringify(slowest)}`);
  const load = Math.max(1, loadavg()[0]! / availableParallelism());
  assert.ok(slowest.bucket < 10_000 * load && slowest.local < 5_000 * load, JSON.stringify(slowest));
  await cellar.call('PATCH', `/v1/apps/${greedy}`, { desired_state: 'stopped' });
  await harm;
  assert.equal((await kept()).text, 'mine');
});

test('nothing that Cellar printed or answered has a key in it', async () => {
  const { body } = await cellar.call('GET', '/v1/admin/settings');
  const stats = await rpc('admin.stats', {});
  requireNone(`${cellar.output}${JSON.stringify([body, stats])}`, '');
});
