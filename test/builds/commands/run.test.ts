import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { test } from 'node:test';
import { BuildFailure } from '../../../bundler/failure.ts';
import { type Command, run } from '../../../runtime/builds/commands/run.ts';
import { DeployLog } from '../../../runtime/builds/deploy/deploy-log.ts';
import { eventually } from '../../support/processes.ts';

function shell(script: string, more: Partial<Command> = {}) {
  const lines: string[] = [];
  const command: Command = {
    arguments: ['sh', '-c', script],
    title: 'script',
    cwd: '/',
    environment: { PATH: '/usr/bin:/bin' },
    timeoutMs: 60_000,
    signal: new AbortController().signal,
    onLine: (line) => lines.push(line),
    ...more,
  };
  return { lines, ended: run(command) };
}

/** Whether a process has ended or is a zombie. */
function hasEnded(pid: number): boolean {
  try {
    return /^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return true;
  }
}

const assertEnds = (pid: number) => eventually(() => hasEnded(pid), `process ${pid} ends`);

test('a command that times out is killed with everything it started', async () => {
  const { lines, ended } = shell('sleep 1000 & echo $!; wait', { timeoutMs: 300 });
  await assert.rejects(ended, new BuildFailure('`script` took longer than 0.3 s and was ended'));
  await assertEnds(Number(lines[0]));
});

test('processes that a command leaves running are killed when it ends', async () => {
  const { lines, ended } = shell('sleep 1000 & echo $!');
  await ended;
  await assertEnds(Number(lines[0]));
});

test('an aborted command is killed and rejects with the reason', async () => {
  const abort = new AbortController();
  const lines: string[] = [];
  const started = Promise.withResolvers<void>();
  const { ended } = shell('echo $$; sleep 1000', {
    signal: abort.signal,
    onLine: (line) => {
      lines.push(line);
      started.resolve();
    },
  });
  await started.promise;
  abort.abort(new Error('the host stops'));
  await assert.rejects(ended, /the host stops/);
  await assertEnds(Number(lines[0]));
});

test('a process outside the process group does not delay the end of the command', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-run-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const leave =
    "setsid sh -c 'echo $$; touch left; exec sleep 1000' & while [ ! -e left ]; do sleep 0.01; done";
  const { lines, ended } = shell(leave, { cwd: directory });
  await ended;
  process.kill(Number(lines[0]), 'SIGKILL');
});

test('a command gets only the environment that is passed to it', async () => {
  const { lines, ended } = shell('env', { environment: { PATH: '/usr/bin:/bin', ONLY: 'this' } });
  await ended;
  assert.deepEqual(lines.filter((line) => !/^(PWD|SHLVL|_|OLDPWD)=/.test(line)).sort(), [
    'ONLY=this',
    'PATH=/usr/bin:/bin',
  ]);
});

test('output arrives as whole lines of plain text', async () => {
  const script = String.raw`printf '\342\202'; sleep 0.05; printf '\254 \033[31mred\033[0m\n10%%\r100%%\ra\tb\007\n\n'; printf 'end'`;
  const { lines, ended } = shell(script);
  await ended;
  assert.deepEqual(lines, ['€ red', '10%', '100%', 'a  b', 'end']);
});

test('a long line is cut at any length, and the lines after it arrive', async () => {
  const long = (bytes: number, character: string) =>
    `head -c ${bytes} /dev/zero | tr "\\0" ${character}; echo;`;
  const { lines, ended } = shell(`${long(3_000, 'x')} echo between; ${long(5_000_000, 'y')} echo end`);
  await ended;
  const cut = (character: string) => `${character.repeat(2000)} … (cut)`;
  assert.deepEqual(lines, [cut('x'), 'between', cut('y'), 'end']);
});

/** Texts with as many lines as the variables and secrets of an app can have. */
const LADEN = [
  ...Array.from({ length: 16 }, (_, n) => linesOf(16_300, n)),
  ...Array.from({ length: 100 }, (_, n) => linesOf(5_000, 100 + n)),
];

/** Returns `bytes` bytes of short lines that are all different. */
function linesOf(bytes: number, seed: number): string {
  return Array.from({ length: bytes / 6 }, (_, n) => (n + 10_000 * seed).toString(36).padStart(5, 'x')).join(
    '\n',
  );
}

for (const [output, script, hidden = []] of [
  ['short lines', 'yes'],
  ['empty lines', "yes ''"],
  ['long lines', `yes ${'x'.repeat(1500)}`],
  ['text without an end', 'cat /dev/zero'],
  ['lines in which much is to be hidden', `yes ${'q'.repeat(1500)}`, LADEN],
] as [string, string, string[]?][]) {
  test(`a command that prints ${output} continuously leaves the host time and memory for its apps`, async () => {
    const delay = monitorEventLoopDelay({ resolution: 10 });
    const log = new DeployLog({ onLine: () => {}, onSteps: () => {} });
    log.hide(hidden);
    const before = process.memoryUsage.rss();
    const [used, began] = [process.threadCpuUsage(), performance.now()];
    delay.enable();
    const { ended } = shell(script, { timeoutMs: 1000, onLine: (line) => log.line(line) });
    await assert.rejects(ended, /took longer than 1 s/);
    delay.disable();
    const { user, system } = process.threadCpuUsage(used);
    const share = (user + system) / 1000 / (performance.now() - began);
    assert.ok(share < 0.5, `${share} of a processor`);
    assert.ok(delay.percentile(90) / 1e6 < 200, `a tenth of the time ${delay.percentile(90) / 1e6} ms pass`);
    assert.ok(delay.max / 1e6 < 3_000, `the event loop stood still for ${delay.max / 1e6} ms`);
    const grown = (process.memoryUsage.rss() - before) / 2 ** 20;
    assert.ok(grown < 150, `${grown} MiB more`);
  });
}

test('the last lines of a long output burst all arrive', async () => {
  const { lines, ended } = shell('seq 3000; echo last >&2');
  await ended;
  assert.deepEqual(
    lines.filter((line) => line !== 'last'),
    Array.from({ length: 3000 }, (_, i) => String(i + 1)),
  );
  assert.ok(lines.includes('last'));
});

test('the last lines of a failed command arrive even while the process that reads them is busy', async (t) => {
  const busy = setInterval(() => {
    for (const until = performance.now() + 25; performance.now() < until; );
  }, 1);
  t.after(() => clearInterval(busy));
  const words = 'x'.repeat(80);
  const { lines, ended } = shell(`yes ${words} | head -2400; echo the error; exit 1`);
  await assert.rejects(ended, /exit code 1/);
  assert.equal(lines.length, 2401);
  assert.equal(lines.at(-1), 'the error');
});

test('the last lines are delivered even if handling the lines outlasts the command', async () => {
  const lines: string[] = [];
  const onLine = (line: string) => {
    for (const until = performance.now() + 1; performance.now() < until; );
    lines.push(line);
  };
  const words = 'x'.repeat(200);
  const { ended } = shell(`seq -f '%.0f ${words}' 800; echo the error; exit 1`, { onLine });
  await assert.rejects(ended, /exit code 1/);
  assert.deepEqual(lines.slice(-2), [`800 ${words}`, 'the error']);
  const cut = lines.findIndex((line) => line.startsWith('… (some lines are not shown'));
  assert.deepEqual(
    lines.slice(0, cut),
    Array.from({ length: cut }, (_, n) => `${n + 1} ${words}`),
  );
});

test('the end of an unterminated line arrives in whole characters', async () => {
  const lines: string[] = [];
  const onLine = (line: string) => {
    for (const until = performance.now() + 3; performance.now() < until; );
    lines.push(line);
  };
  const script = `seq -f '%.0f ${'x'.repeat(150)}' 350; printf '.'; printf '🙂%.0s' $(seq 2050); printf 'the error!'; exit 1`;
  await assert.rejects(shell(script, { onLine }).ended, /exit code 1/);
  const cut = lines.findIndex((line) => line.startsWith('… (some lines are not shown'));
  assert.ok(cut > 0);
  assert.match(lines.slice(cut + 1).join(''), /^(🙂){2042}the error!$/u);
});

test('the error of a failed command names its exit code or signal', async () => {
  await assert.rejects(shell('exit 3').ended, new BuildFailure('`script` failed with exit code 3'));
  await assert.rejects(
    shell('no-such-program').ended,
    /`script` failed with exit code 127: a program that it calls is not installed; .*dependencies of package\.json/,
  );
  const rust = 'cargo install -q worker-build && worker-build';
  await assert.rejects(
    shell('no-such-program', { title: rust }).ended,
    /exit code 127: cargo or worker-build is not installed here; build .* with `wrangler deploy`$/,
  );
  await assert.rejects(shell('kill -TERM $$').ended, new BuildFailure('`script` was ended by SIGTERM'));
});

test('a missing program fails the build, not the host', async () => {
  const { ended } = shell('', { arguments: ['no-such-program'] });
  await assert.rejects(ended, /^BuildFailure: `script` could not start: .*ENOENT/);
});
