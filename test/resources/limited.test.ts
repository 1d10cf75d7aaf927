// Programs that process files of apps: each has a memory limit, and is killed before apps when memory is short.
// Runs as root too.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { checkOwner } from '../../runtime/builds/usage/size.ts';
import { SizeCounter } from '../../runtime/builds/usage/size-counter.ts';
import { openTree, removeTree } from '../../runtime/disk/remove.ts';
import { cleanEnvironment, runChild, startChild } from '../../runtime/processes/child.ts';
import { readerWords } from '../../runtime/processes/reader.ts';
import { limited } from '../../runtime/resources/limited.ts';
import { outOfMemoryScore } from '../../runtime/resources/out-of-memory.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const SCORE = outOfMemoryScore('build');
const KB = 256 * 1024;

test('tools that read, copy and remove build output are limited', async (t) => {
  const directory = temporaryDirectory(t);
  const [bin, seen, tree] = ['bin', 'seen', 'tree'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [bin, tree]) mkdirSync(path);
  const { PATH } = cleanEnvironment();
  for (const name of ['du', 'find', 'rm', 'chmod']) {
    const own = `echo ${name} $(cat /proc/self/oom_score_adj) $(ulimit -d) >> ${seen}`;
    writeFileSync(join(bin, name), `#!/bin/sh\n${own}\nPATH=${PATH} exec ${name} "$@"\n`);
    chmodSync(join(bin, name), 0o755);
  }
  process.env.PATH = `${bin}${delimiter}${PATH}`;
  t.after(() => {
    process.env.PATH = PATH;
  });
  writeFileSync(join(tree, 'file'), 'x');
  const counter = new SizeCounter([tree]);
  assert.equal((await counter.count()).complete, true);
  counter.end();
  const user = { uid: process.getuid!(), gid: process.getgid!() };
  await checkOwner(tree, user, new AbortController().signal);
  await openTree(tree);
  await removeTree(tree);
  const lines = readFileSync(seen, 'utf8').trim().split('\n');
  const expected = ['du', 'du', 'find', 'chmod', 'rm'].map((name) => `${name} ${SCORE} ${KB}`);
  assert.deepEqual(lines, expected);
});

test("a reader of apps' files is killed before apps when memory is short", async () => {
  const program = `import { readFileSync } from 'node:fs';
    console.log(readFileSync('/proc/self/oom_score_adj', 'utf8').trim());`;
  const words = readerWords(program, { user: null, memoryBytes: 900 * 2 ** 20 });
  const { output } = await runChild(words, { timeoutMs: 30_000 });
  assert.equal(output.toString(), `${SCORE}\n`);
});

test('a limited program ends with the process that started it', async () => {
  const parent = await startChild([
    process.execPath,
    '--input-type=module',
    `--eval=import { spawn } from 'node:child_process';
      const child = spawn(process.argv[1], process.argv.slice(2), { detached: true, stdio: 'ignore' });
      console.log(child.pid);
      process.stdin.resume();`,
    '--',
    ...limited(),
    'sleep',
    '1000',
  ]);
  const [line] = (await parent.stdout.iterator({ destroyOnReturn: false }).next()).value
    .toString()
    .split('\n');
  const ofChild = () => {
    try {
      return readFileSync(`/proc/${line}/cmdline`, 'utf8');
    } catch {
      return '';
    }
  };
  await eventually(() => ofChild().startsWith('sleep'), 'the program runs');
  parent.process.kill('SIGKILL');
  await eventually(() => ofChild() === '', 'it has ended');
});
