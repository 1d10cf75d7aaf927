// Runs as root too.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { call, cellOptions, makeRelease, startRelease } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const HELLO = `export default { fetch: () => new Response('hello') }`;

/** Resolves when process `pid` has ended. */
const gone = (pid: number) => eventually(() => !existsSync(`/proc/${pid}/exe`), `process ${pid} goes`);

test('a cell listens on its socket, stops on request, and starts again over its stale socket', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  const first = await startRelease(root, directory);
  assert.equal((await call(first.socketPath('http'), '/')).text, 'hello');
  first.kill();
  assert.equal((await first.exited).reason, 'workerd was ended by SIGKILL');
  assert.ok(existsSync(first.socketPath('http')), 'a killed process leaves its socket file');
  const second = await startRelease(root, directory);
  assert.equal((await call(second.socketPath('http'), '/')).text, 'hello');
  assert.equal((await second.stop()).code, 0);
  second.kill();
});

test('files that a process leaves at its socket paths do not block the next start', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  mkdirSync(`${root}/run/new/http.sock/deep`, { recursive: true });
  const cell = await startRelease(root, directory);
  t.after(() => cell.stop());
  assert.equal((await call(cell.socketPath('http'), '/')).text, 'hello');
  const names = readdirSync(`${root}/run`).filter((name) => !/^(new|cell)-/.test(name));
  assert.deepEqual(names.sort(), ['cell.pid', 'health.sock', 'http.sock', 'new']);
  assert.deepEqual(readdirSync(`${root}/run/new`), [], 'the process does not reach them any more');
});

test('a cell gets no environment variables of the host and cannot gain privileges', async (t) => {
  const root = temporaryDirectory(t);
  process.env.CELLAR_TEST_SECRET = 'host secret';
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  const cell = await startRelease(root, directory);
  t.after(() => cell.stop());
  assert.equal(readFileSync(`/proc/${cell.pid}/environ`, 'utf8'), '');
  assert.match(readFileSync(`/proc/${cell.pid}/status`, 'utf8'), /NoNewPrivs:\t1/);
});

test('a missing program is an error and does not crash the host', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  const start = startCell({ ...(await cellOptions(root, directory)), workerd: '/nowhere/workerd' });
  await assert.rejects(start, /workerd|nowhere/);
});

test('a start that times out or is cancelled ends its process', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, 'for (;;); export default {}');
  const options = await cellOptions(root, directory);
  await assert.rejects(startCell({ ...options, startTimeoutMs: 300 }), /^Error: not ready after 0\.3 s/);
  await gone(Number.parseInt(readFileSync(`${root}/run/cell.pid`, 'utf8'), 10));
  const stop = new AbortController();
  const start = startCell({ ...options, signal: stop.signal });
  setImmediate(() => stop.abort(new Error('given up')));
  await assert.rejects(start, /^Error: given up$/);
  await gone(Number.parseInt(readFileSync(`${root}/run/cell.pid`, 'utf8'), 10));
});

test('a file that a process puts in place of its socket is not followed', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  writeFileSync(
    `${root}/workerd`,
    `#!/bin/sh
    ln -s /somewhere/else.sock ${root}/run/new/http.sock
    echo '{"event": "listen", "socket": "http"}' >&3
    exec /bin/sleep 60`,
    { mode: 0o755 },
  );
  const options = await cellOptions(root, directory);
  const start = startCell({ ...options, workerd: `${root}/workerd`, sockets: ['http'] });
  await assert.rejects(start, /^Error: workerd created a file that is not a socket/);
  await gone(Number.parseInt(readFileSync(`${root}/run/cell.pid`, 'utf8'), 10));
});

test('a leftover process on the storage is killed before another starts there', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  const left = await startRelease(root, directory);
  t.after(() => left.kill());
  const next = await startRelease(root, directory);
  t.after(() => next.stop());
  await gone(left.pid);
  assert.equal((await call(next.socketPath('http'), '/')).text, 'hello');
});

test('a pid that now belongs to another process is left alone', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  const cell = await startRelease(root, directory);
  await cell.stop();
  const stranger = spawn('/bin/sleep', ['60'], { detached: true });
  t.after(() => stranger.kill('SIGKILL'));
  const [, startTime, boot] = readFileSync(`${root}/run/cell.pid`, 'utf8').trim().split(' ');
  writeFileSync(`${root}/run/cell.pid`, `${stranger.pid} ${startTime} ${boot}\n`);
  const next = await startRelease(root, directory);
  t.after(() => next.stop());
  assert.ok(existsSync(`/proc/${stranger.pid}/exe`));
});

test('a killed host leaves no cell behind', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  const helpers = new URL('../../support/fleets/release.ts', import.meta.url).href;
  const script = `
    const { startRelease } = await import(${JSON.stringify(helpers)});
    console.log((await startRelease(${JSON.stringify(root)}, ${JSON.stringify(directory)})).pid);
    setInterval(() => {}, 1000);`;
  const host = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(host.stdout, 'data');
  const pid = Number(line);
  assert.ok(existsSync(`/proc/${pid}/exe`));
  host.kill('SIGKILL');
  await gone(pid);
});

test('a socket path that is too long is named in the error', async (t) => {
  const root = `${temporaryDirectory(t)}/${'long'.repeat(25)}`;
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  await assert.rejects(startRelease(root, directory), /longlong.* is too long for a socket/);
});

test('the lines that explain an end are the last ones, structured or not', async (t) => {
  const root = temporaryDirectory(t);
  const code = `export default { fetch() { console.log('one\\ntwo'); console.error({ a: 'é😀' }); return new Response() } }`;
  const { directory } = await makeRelease(`${root}/r`, code);
  const lines: string[] = [];
  const cell = await startRelease(root, directory, (line) => lines.push(line));
  await call(cell.socketPath('http'), '/');
  cell.kill('it hung');
  const { reason } = await cell.exited;
  assert.equal(reason, "it hung: workerd was ended by SIGKILL; its last lines:\none two\n{ a: 'é😀' }");
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).level),
    ['log', 'error'],
  );
});

const hasScores = existsSync('/proc/self/oom_score_adj');
test(
  'when the machine runs out of memory, a cell is killed before the host',
  hasScores ? {} : { skip: 'this system has no oom_score_adj' },
  async (t) => {
    const root = temporaryDirectory(t);
    const { directory } = await makeRelease(`${root}/r`, HELLO);
    const cell = await startRelease(root, directory);
    t.after(() => cell.stop());
    const score = (pid: number) => Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'));
    assert.ok(score(cell.pid) > score(process.pid), `${score(cell.pid)} ${score(process.pid)}`);
  },
);

test('a host without a free file descriptor refuses a start, survives, and starts it later', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  const helpers = new URL('../../support/fleets/release.ts', import.meta.url).href;
  const script = `
    const { openSync, closeSync } = await import('node:fs');
    const { startRelease } = await import(${JSON.stringify(helpers)});
    const start = () => startRelease(${JSON.stringify(root)}, ${JSON.stringify(directory)});
    const taken = [];
    try { for (;;) taken.push(openSync('/dev/null')); } catch {}
    for (let free = 0; ; free++) {
      const started = await start().then((cell) => cell, (error) => error.constructor.name + ': ' + error.message);
      console.log(typeof started === 'string' ? started : 'started');
      if (typeof started !== 'string') { await started.stop(); break; }
      closeSync(taken.pop());
    }`;
  const host = spawn(
    'sh',
    ['-c', 'ulimit -n 100; exec "$0" "$@"', process.execPath, '--input-type=module', '-e', script],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const output: Buffer[] = [];
  host.stdout.on('data', (chunk) => output.push(chunk));
  const [code] = await once(host, 'close');
  const lines = Buffer.concat(output).toString().trim().split('\n');
  assert.equal(lines.pop(), 'started');
  assert.ok(lines.length > 3, 'several numbers of free descriptors are too few');
  for (const line of lines)
    assert.match(line, /^StartRefused: the host has no room for another process \(EMFILE\)/);
  assert.equal(code, 0);
});

const ONCE = { skip: process.getuid?.() === 0 && 'it takes long, and is the same for every user' };
test('a start that loops is killed after more CPU time than any start needs', ONCE, async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, 'for (;;); export default {}');
  const options = { ...(await cellOptions(root, directory)), startTimeoutMs: 120_000 };
  await assert.rejects(startCell(options), /^Error: not ready after 10 s of processor time/);
  await gone(Number.parseInt(readFileSync(`${root}/run/cell.pid`, 'utf8'), 10));
});
