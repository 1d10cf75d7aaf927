// A Cellar that runs on a copy of another's data directory, and one whose data directory was moved.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cellar, COUNTER_CLASS, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { eventually, processes } from '../support/processes.ts';

const COUNTER = {
  'index.js': `${COUNTER_CLASS}
    export default {
      fetch: async (_, { COUNTER }) => new Response(String(await COUNTER.getByName('one').add())),
    };`,
  'wrangler.toml': COUNTER_CONFIG,
  'package.json': '{"scripts": {"build": "true"}}',
};

/** Returns the pids of all processes of a Cellar's apps. */
const cellsOf = ({ data }: Cellar): number[] =>
  processes()
    .filter(({ command }) => command.some((word) => word.includes(`=unix:${data}/run/`)))
    .map(({ pid }) => pid);

test('a Cellar on a copied data directory serves from the copy, and ends no process of the original', async () => {
  await using original = await new Cellar().start();
  const [first, second] = [
    await original.deploy('first', 'hello', COUNTER),
    await original.deploy('second', 'hello', COUNTER),
  ];
  for (const slug of ['first', 'second']) assert.equal((await original.get(slug)).text, '1');
  const pids = cellsOf(original);
  assert.equal(pids.length, 2);

  await using copy = new Cellar();
  // `cp` fails when the host removes files of builds meanwhile: then copy again.
  await eventually(() => {
    rmSync(copy.data, { recursive: true, force: true });
    return spawnSync('cp', ['-a', original.data, copy.data]).status === 0;
  }, 'the copy is whole');
  await copy.start();
  assert.equal((await copy.get('first')).text, '2');
  assert.equal((await copy.get('second')).text, '2');
  await copy.call('PATCH', `/v1/apps/${first}`, { desired_state: 'stopped' });
  await copy.deployAgain('second', 'hello', COUNTER);
  assert.equal((await copy.get('second')).text, '3');
  await copy.call('DELETE', `/v1/apps/${second}`);
  await copy.stop('SIGKILL');
  await copy.start();

  assert.deepEqual(cellsOf(original), pids, 'the processes of the original run on');
  for (const slug of ['first', 'second']) assert.equal((await original.get(slug)).text, '2');
});

test('a Cellar whose data directory was moved behind a symbolic link builds and serves', async () => {
  await using cellar = await new Cellar().start();
  await cellar.deploy('moved', 'hello', COUNTER);
  assert.equal((await cellar.get('moved')).text, '1');
  await cellar.stop();
  await using there = new Cellar();
  const disk = join(there.directory, 'disk');
  renameSync(cellar.data, disk);
  symlinkSync(disk, there.data);
  await there.start();
  assert.equal((await there.get('moved')).text, '2');
  await there.create('linked');
  const work = await there.checkout('site');
  writeFileSync(
    join(work, 'package.json'),
    '{"scripts": {"build": "echo built; mkdir dist; cp *.html dist"}}',
  );
  await there.commit(work, 'with a script');
  const pushed = await there.push(work, 'linked');
  assert.match(pushed.stderr, /remote: built[\s\S]*serves this push/);
  assert.equal((await there.get('linked')).status, 200);
});
