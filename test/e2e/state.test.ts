// State after restarts, SIGKILL of the host, loss of the control plane, and SIGTERM with work in flight; a newer schema.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Database from 'better-sqlite3';
import { COMPILE_CACHE_ENV } from '../support/compiled.ts';
import { Cellar, COUNTER_CLASS, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { controlPlane, descendants, eventually, processes, resume } from '../support/processes.ts';

const WORKER = `${COUNTER_CLASS}export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/slow') {
      const { readable, writable } = new TransformStream();
      const writer = writable.getWriter();
      const encoder = new TextEncoder();
      const run = async () => {
        await writer.write(encoder.encode('begun\\n'));
        await scheduler.wait(1500);
        await writer.write(encoder.encode('done\\n'));
        await writer.close();
      };
      run();
      return new Response(readable);
    }
    return new Response(String(await env.COUNTER.getByName('one').add()));
  },
};
`;

const cellar = new Cellar();
/** Id of the app `counter`, which all tests use. */
let id = '';
let acknowledged = 0;
before(async () => {
  await cellar.start();
  id = await deployCounter('counter');
});
after(() => cellar[Symbol.asyncDispose]());

const deployCounter = (slug: string) =>
  cellar.deploy(slug, 'hello', { 'index.js': WORKER, 'wrangler.toml': COUNTER_CONFIG });

/** Returns the answer of a counter, or '' when the connection fails. */
const answer = (slug: string) =>
  cellar.get(slug).then(
    ({ text }) => text,
    () => '',
  );

/** Asserts that the counter continues from the last acknowledged value. */
async function assertContinues(): Promise<void> {
  assert.equal((await cellar.get('counter')).text, String(++acknowledged));
}

const cellsOf = (id: string) =>
  processes().filter(({ command }) => command.some((word) => word.includes(`${cellar.data}/run/${id}/`)));

test('SIGKILL of the host leaves no process, and the next start serves what was acknowledged', async () => {
  await assertContinues();
  const left = descendants(cellar.pid);
  assert.ok(left.length >= 2, 'an app and the control plane run');
  await cellar.stop('SIGKILL');
  const pids = new Set(left.map(({ pid }) => pid));
  await eventually(() => !processes().some(({ pid }) => pids.has(pid)), 'every child of the host has gone');

  await cellar.start();
  await assertContinues();
  assert.equal((await cellar.call('GET', `/v1/apps/${id}`)).body.status, 'running');
});

test('after a restart apps answer before the control plane does', async () => {
  await cellar.stop();
  const starting = cellar.start();
  const control = () => controlPlane(cellar.pid);
  await eventually(() => control() !== undefined, 'the control plane is started');
  const { pid } = control()!;
  process.kill(pid, 'SIGSTOP');
  acknowledged++;
  await eventually(async () => (await answer('counter')) === String(acknowledged), 'the app answers');
  const ready = await fetch(`${cellar.api}/ready`);
  assert.equal(ready.status, 503, 'the control plane is not up yet');
  assert.deepEqual(((await ready.json()) as { failing: string[] }).failing, ['control plane']);
  resume(pid);
  await starting;
  assert.equal((await fetch(`${cellar.api}/ready`)).status, 200);
});

test('killing the control plane fails no request to an app, and it comes back', async () => {
  await deployCounter('served');
  const control = controlPlane(cellar.pid)!;
  process.kill(control.pid, 'SIGKILL');
  let answered = 0;
  await eventually(async () => {
    const { status, text } = await cellar.get('served');
    assert.equal(status, 200);
    answered = Number(text);
    return (await cellar.call('GET', '/v1/apps').catch(() => ({ status: 0 }))).status === 200;
  }, 'the API answers again');
  assert.ok(answered > 0);
});

test('SIGTERM lets requests in flight finish, also after a second SIGTERM', async () => {
  const response = await cellar.open('counter', '/slow');
  const reader = response.body!.getReader();
  assert.match(new TextDecoder().decode((await reader.read()).value), /begun/);
  const { pid } = cellar;
  const ended = cellar.stop();
  process.kill(pid, 'SIGTERM');
  let rest = '';
  for (let part = await reader.read(); !part.done; part = await reader.read())
    rest += new TextDecoder().decode(part.value);
  assert.equal(rest, 'done\n');
  assert.deepEqual(await ended, { code: 0, signal: null });
  await eventually(() => cellsOf(id).length === 0, 'no process of the app is left');
  await cellar.start();
});

test('a second host on the same data directory refuses to start and names the first', async () => {
  assert.equal(readFileSync(join(cellar.data, 'host.pid'), 'utf8').trim(), String(cellar.pid));
  const second = spawnSync('node_modules/.bin/node', ['runtime/main.ts'], {
    env: {
      ...COMPILE_CACHE_ENV,
      PATH: process.env.PATH,
      RUNNER_DATA_DIR: cellar.data,
      RUNNER_PORT: '0',
      RUNNER_EDGE_PORT: '0',
    },
    encoding: 'utf8',
    timeout: 180_000,
  });
  assert.equal(second.status, 1);
  assert.match(second.stdout + second.stderr, new RegExp(`belongs to another Cellar, process ${cellar.pid}`));
});

test('an app that crashes is started again', async () => {
  const id = await deployCounter('crashing');
  assert.equal((await cellar.get('crashing')).text, '1');
  const [cell] = cellsOf(id);
  process.kill(cell!.pid, 'SIGKILL');
  await eventually(() => !processes().some(({ pid }) => pid === cell!.pid), 'the process has gone');
  await eventually(async () => (await answer('crashing')) === '2', 'it answers again');
});

test('stopping an app ends its process, and starting it serves the same data', async () => {
  const id = await deployCounter('stopping');
  assert.equal((await cellar.get('stopping')).text, '1');
  const stopped = await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  assert.equal(stopped.status, 200);
  assert.equal(stopped.body.status, 'stopped');
  await eventually(() => cellsOf(id).length === 0, 'its process has gone');
  assert.equal((await cellar.get('stopping')).status, 503);
  assert.equal(
    (await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'running' })).body.status,
    'running',
  );
  assert.equal((await cellar.get('stopping')).text, '2');
});

test('deleting an app ends its process, frees its slug and moves its data to the trash', async () => {
  const id = await deployCounter('deleted');
  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
  await eventually(() => cellsOf(id).length === 0, 'its process has gone');
  assert.equal((await cellar.get('deleted')).status, 404);
  const [trashed] = readdirSync(join(cellar.data, 'trash'));
  await eventually(
    () =>
      readdirSync(join(cellar.data, 'trash', trashed!))
        .sort()
        .join() === 'data,releases,repository.git,run',
    'all that it had is in the trash',
  );
  await cellar.create('deleted');
});

test('an app is deleted at once while its new release loops in a trial', async () => {
  const id = await cellar.create('looping');
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), 'for (;;);\nexport default { fetch: () => new Response() };\n');
  await cellar.commit(work, 'loops');
  const push = cellar.push(work, 'looping');
  const { body } = await cellar.call('GET', `/v1/apps/${id}`);
  assert.equal(body.slug, 'looping');
  await eventually(async () => {
    const { items } = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body;
    return items[0]?.steps.some((step: { name: string }) => step.name === 'start');
  }, 'the release is tried');
  const begun = performance.now();
  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
  // The trial start of the new release alone would take 30 s.
  assert.ok(performance.now() - begun < 25_000);
  assert.equal((await push).code, 0);
  await eventually(() => cellsOf(id).length === 0, 'no process of it is left');
});

test('a build interrupted by SIGKILL of the host is recorded as interrupted and repeated', async () => {
  const id = await cellar.create('slow');
  const work = await cellar.checkout('hello');
  writeFileSync(
    join(work, 'package.json'),
    JSON.stringify({ scripts: { build: 'echo building; sleep 60' } }),
  );
  await cellar.commit(work, 'slow build');
  const pushing = cellar.push(work, 'slow');
  await eventually(async () => {
    const { body } = await cellar.call('GET', `/v1/apps/${id}/deploys`);
    return body.items.some((deploy: { steps: { name: string }[] }) =>
      deploy.steps.some(({ name }) => name === 'build'),
    );
  }, 'the build runs');
  await cellar.stop('SIGKILL');
  await pushing;
  await cellar.start();
  const deploys = async () => (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
  await eventually(async () => (await deploys())[1]?.status === 'failed', 'another deploy is begun');
  const items = await deploys();
  assert.equal(items.length, 2);
  assert.match(items[1].error, /^interrupted/);
  assert.equal(items[0].sha, items[1].sha);
  assert.match(items[0].status, /^(queued|building)$/);
  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
});

/** Returns the path of the control plane's D1 database. */
function controlDatabase(): string {
  const directory = join(cellar.data, 'control/d1');
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  const name = names.find((name) => name.endsWith('.sqlite') && !name.endsWith('metadata.sqlite'));
  assert.ok(name, names.join());
  return join(directory, name);
}

test('a control database with a newer schema stops the boot, and the message says so', async () => {
  await cellar.stop();
  const database = new Database(controlDatabase());
  database.prepare("INSERT INTO d1_migrations (name) VALUES ('9999_later.sql')").run();
  const from = cellar.output.length;
  await assert.rejects(cellar.start(), /the host ended \(1\)/);
  assert.match(cellar.output.slice(from), /newer Cellar.*9999_later\.sql/);

  database.prepare("DELETE FROM d1_migrations WHERE name = '9999_later.sql'").run();
  database.close();
  await cellar.stop();
  await cellar.start();
  await assertContinues();
});

test('after the loss of the control database no app is deleted, apps serve, and new ones can be made', async () => {
  await assertContinues();
  await cellar.stop();
  rmSync(join(cellar.data, 'control'), { recursive: true });
  await cellar.start();
  await assertContinues();
  assert.deepEqual((await cellar.call('GET', '/v1/apps')).body.items, []);
  await cellar.create('another');
  await cellar.stop();
  await cellar.start();
  await assertContinues();
  assert.equal((await cellar.call('GET', '/v1/apps')).body.items.length, 1);
});

test('apps are served while the control plane cannot start', async () => {
  await cellar.stop();
  for (const path of readdirSync(join(cellar.data, 'control'), { recursive: true, encoding: 'utf8' })) {
    if (path.includes('.sqlite'))
      writeFileSync(join(cellar.data, 'control', path), 'no database '.repeat(1000));
  }
  const starting = cellar.start().catch((error: Error) => error);
  await eventually(() => cellar.output.includes('the control plane does not start'), 'the failure is logged');
  await assertContinues();
  assert.deepEqual(await cellar.stop(), { code: 0, signal: null });
  assert.ok((await starting) instanceof Error);
});
