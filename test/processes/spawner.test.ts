// Jobs started by a separate spawner process. They get what a child of this process would get, and nothing more.
// Runs as root too.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { resourceErrorCode, runChild, startChild, startJob } from '../../runtime/processes/child.ts';
import { Spawner } from '../../runtime/processes/spawner.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const sh = (script: string) => ['/bin/sh', '-c', script];
const TIME = { timeoutMs: 20_000 };

async function opened(
  t: TestContext,
  directory = temporaryDirectory(t),
  stalledS?: number,
): Promise<Spawner> {
  const spawner = new Spawner(directory, stalledS);
  t.after(() => spawner.close());
  await spawner.open();
  assert.notEqual(spawner.pid, null);
  return spawner;
}

function parentOf(pid: number): number {
  return Number(/^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]);
}

test('a job is the spawner’s child, with its arguments, directory, environment, streams and group', async (t) => {
  const spawner = await opened(t);
  const script = 'echo "$0 $A"; pwd; cat; cut -d" " -f5 /proc/$$/stat; echo bad >&2; cat <&3 >&3; exit 7';
  const words = [...sh(script), `a 'word'\n€`];
  const options = { cwd: '/usr', environment: { A: 'é\n', PATH: process.env.PATH! }, channel: true };
  const job = await startJob(words, options);
  assert.equal(parentOf(job.pid), spawner.pid);
  job.stdin.end('input\n');
  // More than a socket buffers: neither side of the channel may fail with EAGAIN.
  const large = Buffer.alloc(4 * 2 ** 20, 'x');
  job.channel.end(large);
  const [output, errors, back] = await Promise.all([text(job.stdout), text(job.stderr), buffer(job.channel)]);
  assert.equal(output, `a 'word'\n€ é\n\n/usr\ninput\n${job.pid}\n`);
  assert.equal(errors, 'bad\n');
  assert.ok(back.equals(large));
  assert.deepEqual(await job.exited, { code: 7, killedBy: null });
  assert.deepEqual(await job.closed, { code: 7, killedBy: null });
});

test('a job that cannot start says why, and one that is killed names the signal', async (t) => {
  await opened(t);
  await assert.rejects(startJob(['/nowhere/at/all']), (error: Error) => {
    assert.match(error.message, /could not start: spawn \/nowhere\/at\/all ENOENT/);
    assert.equal((error.cause as NodeJS.ErrnoException).code, 'ENOENT');
    return true;
  });
  await assert.rejects(startJob(['true', 'x'.repeat(3 * 2 ** 20)]), /could not start: .*E2BIG/);
  const descriptors = () => readdirSync('/proc/self/fd').length;
  const before = descriptors();
  await Promise.all(
    Array.from({ length: 60 }, () => assert.rejects(startJob(['/nowhere/at/all']), /ENOENT/)),
  );
  await eventually(() => descriptors() <= before, 'nothing of them is left open');
  const job = await startJob(sh('sleep 1234 & wait'));
  job.end();
  assert.deepEqual(await job.closed, { code: null, killedBy: 'SIGKILL' });
  // Each of many concurrent jobs gets its own output.
  const words = Array.from({ length: 40 }, (_, n) => `job ${n}`);
  const results = await Promise.all(words.map((word) => runChild(['echo', word], TIME)));
  assert.deepEqual(
    results.map(({ output }) => output.toString().trim()),
    words,
  );
});

test('when the spawner is killed its jobs count as killed, and the next ones start without it until it is back', async (t) => {
  const spawner = await opened(t);
  const first = spawner.pid!;
  const job = await startJob(['sleep', '1234']);
  process.kill(first, 'SIGKILL');
  assert.deepEqual(await job.exited, { code: null, killedBy: 'SIGKILL' });
  // The job ends even where the kernel does not end it with its parent.
  await job.closed;
  await eventually(() => spawner.pid === null, 'the spawner is missed');
  const own = await startJob(['sleep', '1234']);
  assert.equal(parentOf(own.pid), process.pid);
  own.end();
  await own.closed;
  await eventually(() => spawner.pid !== null && spawner.pid !== first, 'another spawner is there');
  const next = await startJob(['sleep', '1234']);
  assert.equal(parentOf(next.pid), spawner.pid);
  next.end();
  await next.closed;
});

test('at most a thousand jobs wait to start, and one more is refused and may retry', async (t) => {
  const spawner = await opened(t);
  const { pid } = spawner;
  process.kill(pid!, 'SIGSTOP');
  const isStopped = () => /^State:\tT/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  await eventually(isStopped, 'the spawner stands still');
  const waiting = Array.from({ length: 1_000 }, () => startJob(['true']));
  const ended = Promise.allSettled(waiting);
  const refused = startJob(['true']).then(
    () => assert.fail('it was started'),
    (error: unknown) => error,
  );
  // Without the limit, the refused call would wait until the spawner's timeout.
  const error = (await Promise.race([refused, ended])) as Error;
  assert.match(
    error.message,
    /^`true` could not start: 1000 other processes wait to be started already; try again/,
  );
  assert.equal(resourceErrorCode(error), 'EAGAIN');
  process.kill(pid!, 'SIGKILL');
  assert.ok((await ended).every(({ status }) => status === 'rejected'));
  await eventually(() => spawner.pid !== null && spawner.pid !== pid, 'another spawner is there');
  const job = await startJob(['sleep', '1234']);
  assert.equal(parentOf(job.pid), spawner.pid);
  job.end();
  await job.closed;
});

test('a spawner that starts no job for long is replaced, and its jobs are refused', async (t) => {
  const spawner = await opened(t, temporaryDirectory(t), 1);
  const { pid } = spawner;
  process.kill(pid!, 'SIGSTOP');
  for (const result of await Promise.allSettled([startJob(['true']), startJob(['true'])])) {
    assert.ok(result.status === 'rejected');
    assert.match(String(result.reason), /could not start: the process that starts children ended/);
    assert.equal(resourceErrorCode(result.reason), 'EAGAIN');
  }
  await eventually(() => spawner.pid !== null && spawner.pid !== pid, 'another spawner is there');
});

test('an urgent job does not wait behind many others', async (t) => {
  const spawner = await opened(t);
  const { pid } = spawner;
  process.kill(pid!, 'SIGSTOP');
  const waiting = Array.from({ length: 4 }, () => startJob(['true']));
  const urgent = await startJob(['sleep', '1234'], { urgent: true });
  assert.equal(parentOf(urgent.pid), process.pid);
  urgent.end();
  await urgent.closed;
  process.kill(pid!, 'SIGCONT');
  for (const job of await Promise.all(waiting)) await job.closed;
  const job = await startJob(['sleep', '1234'], { urgent: true });
  assert.equal(parentOf(job.pid), pid);
  job.end();
  await job.closed;
});

test('where the spawner cannot receive the streams of a job, the job starts without it', async (t) => {
  const directory = temporaryDirectory(t);
  const spawner = await opened(t, directory);
  rmSync(join(directory, 'streams.sock'));
  const words = [1, 2, 3];
  const jobs = await Promise.all(words.map((word) => startJob(sh(`echo ${word}; exec sleep 1234`))));
  assert.deepEqual(
    jobs.map(({ pid }) => parentOf(pid)),
    words.map(() => process.pid),
  );
  assert.equal(String(await once(jobs[1]!.stdout, 'data')), '2\n');
  for (const job of jobs) job.end();
  assert.notEqual(spawner.pid, null);
});

test('a connection that belongs to no job, or a second one for a stream, is not accepted', async (t) => {
  const directory = temporaryDirectory(t);
  const { pid } = await opened(t, directory);
  process.kill(pid!, 'SIGSTOP');
  const job = startJob(sh('echo its own words; cat'));
  const label = (text: string) => text.padEnd(24);
  for (const words of [label('7000 1'), label('x'), '1 1', label('1 9'), '']) {
    const stranger = connect(join(directory, 'streams.sock'));
    stranger.end(`${words}a stranger's words`.slice(0, words === '1 1' ? 3 : undefined));
    await once(stranger.resume(), 'close');
  }
  process.kill(pid!, 'SIGCONT');
  const { stdin, stdout } = await job;
  const late = connect(join(directory, 'streams.sock'));
  late.write(label('1 1'));
  await once(late.resume(), 'close');
  stdin.end('and more');
  assert.equal(await text(stdout), 'its own words\nand more');
});

test("a job's timeout does not count time in which the host's event loop was blocked", async (t) => {
  const { pid } = await opened(t);
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const standStill = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  const starting = startJob(['sleep', '1234']);
  await turn();
  // Both the spawner's message and the job's streams wait now. One turn reads the message, the next one assigns the streams.
  standStill(1_000);
  await turn();
  standStill(5_200);
  const job = await starting;
  assert.equal(parentOf(job.pid), pid);
  job.end();
  await job.closed;
});

test("a job whose streams exceed the host's descriptors says so, and the host and the next jobs go on", async () => {
  const module = (name: string) =>
    JSON.stringify(new URL(`../../runtime/processes/${name}.ts`, import.meta.url));
  const script = `
    import { openSync, closeSync, mkdtempSync, rmSync } from 'node:fs';
    import { startJob, runChild, resourceErrorCode } from ${module('child')};
    import { Spawner } from ${module('spawner')};
    // A running job does not keep this process alive.
    const stays = setInterval(() => {}, 1_000);
    const directory = mkdtempSync('/tmp/cellar-streams-');
    const spawner = new Spawner(directory);
    await spawner.open();
    const taken = [];
    try { for (;;) taken.push(openSync('/dev/null')); } catch {}
    for (let n = 0; n < 14; n++) closeSync(taken.pop());
    const jobs = await Promise.allSettled(Array.from({ length: 10 }, (_, n) => startJob(['sh', '-c', 'echo ' + n + '; sleep 1234'])));
    for (const { value, reason } of jobs) {
      console.log(reason === undefined ? 'started' : resourceErrorCode(reason) + ' ' + reason.message);
      value?.end();
    }
    for (const descriptor of taken) closeSync(descriptor);
    for (const { value } of jobs) await value?.closed;
    const { output } = await runChild(['echo', 'goes on'], { timeoutMs: 20_000 });
    console.log(String(output), spawner.pid !== null);
    spawner.close();
    clearInterval(stays);
    rmSync(directory, { recursive: true });`;
  const words = ['prlimit', '--nofile=200', process.execPath, '--input-type=module', '--eval', script];
  const { output } = await runChild(words, { timeoutMs: 60_000 });
  const lines = String(output).trim().split('\n');
  assert.deepEqual(lines.slice(10), ['goes on', ' true'], String(output));
  const refused = lines.slice(0, 10).filter((line) => line !== 'started');
  assert.ok(refused.length > 0, String(output));
  for (const line of refused) assert.match(line, /^EMFILE `sh` could not start: /, String(output));
});

/** Whether a process has ended, even if it is a zombie. */
function hasEnded(pid: number): boolean {
  try {
    return /^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return true;
  }
}

test('the spawner ends with the host, and its jobs with all their descendants', async (t) => {
  const directory = temporaryDirectory(t);
  const module = (path: string) =>
    JSON.stringify(new URL(`../../runtime/processes/${path}`, import.meta.url));
  const script = `
    import { once } from 'node:events';
    import { startJob } from ${module('child.ts')};
    import { Spawner } from ${module('spawner.ts')};
    setInterval(() => {}, 1000);
    const spawner = new Spawner(${JSON.stringify(directory)});
    await spawner.open();
    const job = await startJob(['/bin/sh', '-c', 'sleep 1234 & echo $!; wait']);
    const [line] = await once(job.stdout, 'data');
    console.log([spawner.pid, job.pid, Number(line.toString())].join(' '));`;
  const host = await startChild([process.execPath, '--input-type=module', '--eval', script]);
  t.after(() => host.end());
  const [line] = (await once(host.stdout, 'data')) as [Buffer];
  const pids = line.toString().split(' ').map(Number);
  assert.equal(parentOf(pids[0]!), host.pid);
  process.kill(host.pid, 'SIGKILL');
  await eventually(() => pids.every(hasEnded), 'the spawner, its job and the child of that have ended');
});
