// Runs as root too.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { startProgram } from '../../runtime/processes/shell-program.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const DATA_LIMIT = 64 * 2 ** 20;
/** Every character of one and two bytes except NUL, and some longer ones. */
const CHARACTERS = `${String.fromCharCode(...Array.from({ length: 0x7ff }, (_, n) => n + 1))}‼€😀`;

test('a program runs with its words, directory and limit, without environment and input', async (t) => {
  const cwd = `${temporaryDirectory(t)}/it's "here"\n$HOME`;
  mkdirSync(cwd);
  const script = 'cat; pwd; ulimit -d; tr "\\0" " " < /proc/$$/environ; echo "$0"; echo control >&3; exit 7';
  const words = ['/bin/sh', '-c', script, `a 'word'\n$(id)`];
  const started: number[] = [];
  const child = await startProgram({ words, cwd, environment: {}, dataLimitBytes: DATA_LIMIT }, ({ pid }) =>
    started.push(pid),
  );
  assert.deepEqual(started, [child.pid]);
  const [output, control, end] = await Promise.all([text(child.stdout), text(child.channel), child.closed]);
  assert.equal(output, `${cwd}\n${DATA_LIMIT / 1024}\na 'word'\n$(id)\n`);
  assert.equal(control, 'control\n');
  assert.deepEqual(end, { code: 7, killedBy: null });
});

test('a program that cannot run ends its process, with the reason in the output', async () => {
  for (const [cwd, word, reason] of [
    ['/', '/nowhere/at/all', /nowhere/],
    ['/nowhere', '/bin/true', /nowhere/],
  ] as const) {
    const program = { words: [word], cwd, environment: {}, dataLimitBytes: DATA_LIMIT };
    const child = await startProgram(program, () => {});
    const [errors, { code }] = await Promise.all([text(child.stderr), child.closed]);
    assert.match(errors, reason);
    assert.notEqual(code, 0);
  }
});

test('a program gets its environment byte by byte, as much as fits, and not in its arguments', async () => {
  const environment = {
    A: `${CHARACTERS}'"\\ $HOME $(id) \`id\`\n`,
    ...Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`S_${n}`, CHARACTERS])),
  };
  const words = ['/bin/cat', '/proc/self/environ'];
  const child = await startProgram({ words, cwd: '/', environment, dataLimitBytes: DATA_LIMIT }, () => {});
  const lines = (await text(child.stdout)).split('\0').slice(0, -1);
  assert.deepEqual(
    lines.sort(),
    Object.entries(environment)
      .map(([name, value]) => `${name}=${value}`)
      .sort(),
  );
});
