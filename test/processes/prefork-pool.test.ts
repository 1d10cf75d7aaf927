// Runs as root too.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { PreforkPool } from '../../runtime/processes/prefork-pool.ts';
import { eventually } from '../support/e2e/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const DATA_LIMIT = 64 * 2 ** 20;
/** Every character of one and two bytes, but NUL, and some of more. */
const CHARACTERS = `${String.fromCharCode(...Array.from({ length: 0x7ff }, (_, n) => n + 1))}‼€😀`;

/** Spares, once all of them wait, and the processes that were started for that. */
async function waiting(t: TestContext): Promise<{ preforkPool: PreforkPool; started: number[] }> {
  const started: number[] = [];
  const preforkPool = new PreforkPool((pid) => started.push(pid));
  t.after(() => preforkPool.close());
  preforkPool.prepare();
  await eventually(() => preforkPool.pids.length === 2, 'two processes wait');
  return { preforkPool, started };
}

test('a spare becomes the program: with its words, directory and limit, without environment and input', async (t) => {
  const cwd = `${temporaryDirectory(t)}/it's "here"\n$HOME`;
  mkdirSync(cwd);
  const { preforkPool, started } = await waiting(t);
  const [first] = preforkPool.pids;
  const script = 'cat; pwd; ulimit -d; tr "\\0" " " < /proc/$$/environ; echo "$0"; echo control >&3; exit 7';
  const words = ['/bin/sh', '-c', script, `a 'word'\n$(id)`];
  const child = await preforkPool.run({ words, cwd, environment: {}, dataLimitBytes: DATA_LIMIT });
  assert.equal(child.pid, first);
  const [output, control, end] = await Promise.all([text(child.stdout), text(child.channel), child.closed]);
  assert.equal(output, `${cwd}\n${DATA_LIMIT / 1024}\na 'word'\n$(id)\n`);
  assert.equal(control, 'control\n');
  assert.deepEqual(end, { code: 7, killedBy: null });
  preforkPool.prepare();
  await eventually(() => preforkPool.pids.length === 2, 'another waits in its place');
  assert.equal(started.length, 3);
});

test('a spare that was killed is not used, and a program needs none', async (t) => {
  const { preforkPool } = await waiting(t);
  const killed = preforkPool.pids;
  for (const pid of killed) process.kill(pid, 'SIGKILL');
  await eventually(() => preforkPool.pids.length === 0, 'no process waits');
  const child = await preforkPool.run({
    words: ['/bin/true'],
    cwd: '/',
    environment: {},
    dataLimitBytes: DATA_LIMIT,
  });
  assert.ok(!killed.includes(child.pid!));
  assert.deepEqual(await child.closed, { code: 0, killedBy: null });
});

test('what cannot be run is the end of its process, with the reason in its output', async (t) => {
  const { preforkPool } = await waiting(t);
  for (const [cwd, word, reason] of [
    ['/', '/nowhere/at/all', /nowhere/],
    ['/nowhere', '/bin/true', /nowhere/],
  ] as const) {
    const child = await preforkPool.run({ words: [word], cwd, environment: {}, dataLimitBytes: DATA_LIMIT });
    const [errors, { code }] = await Promise.all([text(child.stderr), child.closed]);
    assert.match(errors, reason);
    assert.notEqual(code, 0);
  }
});

test('spares keep no process from ending, and end with it, however it ends', async () => {
  const module = JSON.stringify(new URL('../../runtime/processes/prefork-pool.ts', import.meta.url).href);
  const script = `
    const { PreforkPool } = await import(${module});
    const started = [];
    const spares = new PreforkPool((pid) => { started.push(pid); if (started.length === 2) console.log(started.join(' ')); });
    spares.prepare();
    if (process.argv[1] === 'stay') setInterval(() => {}, 1000);
    else while (started.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));`;
  for (const how of ['stay', 'end']) {
    const host = spawn(process.execPath, ['--input-type=module', '-e', script, how], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(host.stdout, 'data');
    const exited = once(host, 'exit');
    if (how === 'stay') host.kill('SIGKILL');
    const [code] = await exited;
    assert.equal(code, how === 'stay' ? null : 0);
    for (const pid of String(line).trim().split(' '))
      await eventually(() => !existsSync(`/proc/${pid}/exe`), `spare ${pid} has ended`);
  }
});

test('a program gets its environment byte by byte, as much as fits, and nobody sees it among the arguments', async (t) => {
  const { preforkPool } = await waiting(t);
  const environment = {
    A: `${CHARACTERS}'"\\ $HOME $(id) \`id\`\n`,
    ...Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`S_${n}`, CHARACTERS])),
  };
  const words = ['/bin/cat', '/proc/self/environ'];
  const child = await preforkPool.run({ words, cwd: '/', environment, dataLimitBytes: DATA_LIMIT });
  const lines = (await text(child.stdout)).split('\0').slice(0, -1);
  assert.deepEqual(
    lines.sort(),
    Object.entries(environment)
      .map(([name, value]) => `${name}=${value}`)
      .sort(),
  );
});
