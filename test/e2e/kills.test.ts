// Kills of the control plane or the host at a bad moment.
import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { Cellar } from '../support/e2e/cellar.ts';
import {
  cells,
  controlPlane,
  descendants,
  eventually,
  type Process,
  processes,
} from '../support/processes.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

const answers = async () => (await cellar.call('GET', '/v1/apps').catch(() => null))?.status === 200;
beforeEach(() => eventually(answers, 'the control plane is back'));

test('the host restarts a control plane that dies again during its start', async () => {
  const first = controlPlane(cellar.pid)!.pid;
  process.kill(first, 'SIGKILL');
  const isNew = (found: Process | undefined): found is Process => found !== undefined && found.pid !== first;
  await eventually(() => isNew(controlPlane(cellar.pid)), 'it is started again');
  process.kill(controlPlane(cellar.pid)!.pid, 'SIGKILL');
  await eventually(answers, 'it answers');
});

test('the host restarts a control plane whose config is damaged', async () => {
  writeFileSync(join(cellar.data, 'control/control.capnp'), 'damaged');
  process.kill(controlPlane(cellar.pid)!.pid, 'SIGKILL');
  await eventually(answers, 'it answers');
});

test('a wanted state that the control plane stored and could not send is applied after its restart', async () => {
  const id = await cellar.create('written');
  assert.equal((await cellar.push(await cellar.checkout('hello'), 'written')).code, 0);
  const { pid } = controlPlane(cellar.pid)!;
  process.kill(pid, 'SIGSTOP');
  const directory = join(cellar.data, 'control/d1');
  const [file] = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.sqlite') && !name.endsWith('metadata.sqlite'),
  );
  const database = new Sqlite(join(directory, file!));
  database.exec('UPDATE meta SET revision = revision + 1');
  database
    .prepare(
      `UPDATE apps SET desired_state = 'stopped', asleep_since = NULL, generation = (SELECT revision FROM meta) WHERE id = ?`,
    )
    .run(id);
  database.close();
  process.kill(pid, 'SIGKILL');
  await eventually(async () => (await cellar.get('written')).status === 503, 'the app is stopped');
});

test('a host that is killed during a push leaves no git process', async () => {
  await cellar.create('pushing');
  const line = `${'0'.repeat(40)} ${'a'.repeat(40)} refs/heads/main\0report-status`;
  const commands = `${(line.length + 4).toString(16).padStart(4, '0')}${line}0000`;
  const remote = new URL(`${cellar.remote('pushing')}/git-receive-pack`);
  const push = request({
    ...{ host: '127.0.0.1', port: remote.port, path: remote.pathname, method: 'POST' },
    auth: `${remote.username}:${remote.password}`,
    headers: {
      host: remote.host,
      'content-type': 'application/x-git-receive-pack-request',
      'content-length': String(commands.length + 1_000),
    },
  });
  push.on('error', () => {});
  push.write(`${commands}PACK`);
  const gits = (among: Process[]) => among.filter(({ command }) => command[0]?.includes('git'));
  await eventually(() => gits(descendants(cellar.pid)).length > 1, 'git takes the push');
  const begun = new Set(gits(descendants(cellar.pid)).map(({ pid }) => pid));
  await cellar.stop('SIGKILL');
  await eventually(() => !gits(processes()).some(({ pid }) => begun.has(pid)), 'git ends');
  await cellar.start();
});

test('an app’s process is not a fork of the host, and is restarted when its spawner is killed', async () => {
  const spawner = () =>
    processes().find(
      ({ parent, command }) =>
        parent === cellar.pid && command.some((word) => word.endsWith('spawner-program.js')),
    );
  const id = await cellar.create('forked');
  assert.equal((await cellar.push(await cellar.checkout('hello'), 'forked')).code, 0);
  const first = cells(id)[0]!;
  const { pid } = spawner()!;
  assert.equal(first.parent, pid);
  process.kill(pid, 'SIGKILL');
  await eventually(() => (spawner()?.pid ?? pid) !== pid, 'another one is there');
  await eventually(
    async () =>
      (await cellar.get('forked').catch(() => null))?.status === 200 && cells(id)[0]?.pid !== first.pid,
    'the app has another process, and answers',
  );
  assert.equal(cells(id).length, 1);
});
