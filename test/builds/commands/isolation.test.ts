// What build commands see of the machine, and their resource limits, on a real host.
// Runs as root too.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../../support/e2e/cellar.ts';
import { eventually, processes } from '../../support/processes.ts';
import { NEEDS_SANDBOX } from '../../support/sandbox.ts';
import { temporaryDirectory } from '../../support/temporary.ts';
import { NEEDS_USERS } from '../../support/users.ts';

const MEMORY_MB = 300;
/** Allocates more than any limit here, but too little to bring the machine down without a limit. */
const HOG = `const all = [];
for (let n = 0; n < 2000; n++) all.push(Buffer.alloc(2 ** 20, 1));
setInterval(() => all.length, 1000);`;
const cellar = new Cellar({ RUNNER_BUILD_MEMORY_MB: String(MEMORY_MB) });
before(async () => {
  giveCloneTo(cellar);
  await cellar.start();
});
after(() => cellar[Symbol.asyncDispose]());

/** Adds a package beside the data directory, as in a clone of Cellar. Builds must not find this package. */
function giveCloneTo({ directory }: Cellar): void {
  const zod = join(directory, 'node_modules/zod');
  mkdirSync(zod, { recursive: true });
  writeFileSync(join(zod, 'index.js'), '');
}

/** Starts shells until the system refuses one. Each shell waits for input that never comes. */
const BOMB = 'mkfifo never; (while :; do read line < never & done)';

let builds = 0;
/** Pushes a Worker whose build runs `command`, which may run `script`. Resolves with the output of the push. */
async function build(host: Cellar, script: string, command = 'node build.mjs'): Promise<string> {
  const slug = `build${++builds}`;
  await host.create(slug);
  const work = await host.checkout('hello');
  writeFileSync(join(work, 'package.json'), JSON.stringify({ scripts: { build: command } }));
  writeFileSync(join(work, 'build.mjs'), script);
  await host.commit(work, 'build');
  const { stderr } = await host.push(work, slug);
  return stderr.replace(/^remote: /gm, '').replace(/ +$/gm, '');
}

/**
 * Returns a build script that prints what it sees, as lines `name=value`.
 * @param secret a file of the host @param stranger the pid of a process outside the build
 */
const look = (secret: string, stranger: number) => `
  import { execFileSync } from 'node:child_process';
  import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
  import { createRequire } from 'node:module';
  import { dirname } from 'node:path';
  const say = (name, value) => console.log(name + '=' + value);
  const attempt = (act) => { try { return act(); } catch (error) { return error.code ?? 'failed'; } };
  const require = createRequire(process.cwd() + '/x.js');
  say('zod', attempt(() => require.resolve('zod') && 'found'));
  say('git', attempt(() => execFileSync('git', ['rev-parse', '--show-toplevel'], { stdio: 'pipe', encoding: 'utf8' }).trim() === process.cwd()));
  const above = [];
  for (let path = dirname(process.cwd()); ; path = dirname(path)) {
    for (const name of ['package.json', 'tsconfig.json', 'node_modules', '.git', '.npmrc', 'pnpm-workspace.yaml'])
      if (existsSync(path + '/' + name)) above.push(path + '/' + name);
    if (path === dirname(path)) break;
  }
  say('above', above.join());
  say('secret', attempt(() => readFileSync(${JSON.stringify(secret)}, 'utf8')));
  say('stranger', existsSync('/proc/${stranger}/cmdline') && readFileSync('/proc/${stranger}/cmdline', 'utf8').includes('600.25'));
  say('processes', readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)).length < 12);
  say('shm', attempt(() => readdirSync('/dev/shm').length));
  say('top', readdirSync('/').join());
  for (const path of ['/', '/dev', '/etc', '/usr', dirname(process.cwd())]) say('write ' + path, attempt(() => writeFileSync(path + '/cellar-test', '') ?? 'written'));
  for (const path of ['/tmp', '/var/tmp', '/dev/shm', process.env.TMPDIR, process.env.HOME]) say('write ' + path, attempt(() => writeFileSync(path + '/cellar-test', '') ?? 'written'));
  const stat = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
  // The scheduling policy: 5 is SCHED_IDLE.
  say('way', stat[38] === '5' ? 'idle' : 'nice ' + stat[16]);
  say('oom', attempt(() => readFileSync('/proc/self/oom_score_adj', 'utf8').trim()));
  // AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK; then AF_PACKET, AF_ALG, AF_VSOCK and AF_XDP.
  for (const family of [1, 2, 10, 16, 17, 38, 40, 44])
    say('socket ' + family, execFileSync('perl', ['-e', 'print socket(S, $ARGV[0], 2, 0) ? "opened" : $!+0', String(family)], { encoding: 'utf8' }));
  say('io_uring', execFileSync('perl', ['-e', 'print syscall(425, 0, 0) == -1 ? $!+0 : "there"'], { encoding: 'utf8' }));
  say('npm', execFileSync('npm', ['--version'], { encoding: 'utf8' }).trim().split('.').length);
`;

/** Asserts that a build of `host` sees nothing of this machine. */
async function assertWalled(host: Cellar, secret: string): Promise<void> {
  const stranger = spawn('sleep', ['600.25'], { stdio: 'ignore' });
  const shared = `/dev/shm/isolation-${process.pid}`;
  writeFileSync(shared, 'shared');
  chmodSync(shared, 0o644);
  try {
    const printed = await build(host, look(secret, stranger.pid!));
    assert.match(printed, /serves this push/);
    const found = Object.fromEntries(
      [...printed.matchAll(/^([\w/ -]+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
    );
    assert.equal(found.zod, 'MODULE_NOT_FOUND', printed);
    assert.equal(found.git, 'true', printed);
    assert.equal(found.above, '', printed);
    // A build is at niceness 13 on a busy machine without control groups: an idle one would get almost no CPU time.
    assert.match(found.way!, /^idle$|^nice 13$/, printed);
    // When memory is short, the kernel kills a build before the host.
    const score = `/proc/${host.pid}/oom_score_adj`;
    const ofHost = existsSync(score) ? readFileSync(score, 'utf8') : null;
    if (ofHost !== null) assert.ok(Number(found.oom) > Number(ofHost), printed);
    assert.equal(found.secret, 'ENOENT', printed);
    assert.equal(found.stranger, 'false', printed);
    assert.equal(found.processes, 'true', printed);
    assert.equal(found.shm, '0', printed);
    assert.ok(
      !found.top.split(',').some((name: string) => ['root', 'home', 'srv', 'opt'].includes(name)),
      printed,
    );
    for (const path of ['/', '/dev', '/etc', '/usr'])
      assert.notEqual(found[`write ${path}`], 'written', path);
    for (const path of ['/tmp', '/var/tmp', '/dev/shm'])
      assert.equal(found[`write ${path}`], 'written', path);
    assert.equal(found.npm, '3', printed);
    for (const family of [1, 2, 10, 16]) assert.equal(found[`socket ${family}`], 'opened', printed);
    // 97 is EAFNOSUPPORT. 38 is ENOSYS, for system calls that could open sockets past the filter.
    for (const family of [17, 38, 40, 44]) assert.equal(found[`socket ${family}`], '97', printed);
    assert.equal(found.io_uring, '38', printed);
    for (const path of ['/tmp', '/var/tmp', '/dev/shm'])
      assert.ok(!readdirSync(path).includes('cellar-test'), path);
  } finally {
    stranger.kill('SIGKILL');
    spawnSync('rm', ['-f', shared]);
  }
}

test(
  'a build sees the system, its own files and processes, and nothing above its project',
  NEEDS_SANDBOX,
  async () => {
    await assertWalled(cellar, join(cellar.data, 'host.sqlite'));
  },
);

/** The timeout is long, because three of the four builds run until they reach a limit. */
const LONG = { ...NEEDS_USERS, timeout: 600_000 };

test('bubblewrap isolates the builds of an unprivileged host in the same way', LONG, async (t) => {
  const uid = 54_321;
  const ordinary = ['--reuid', String(uid), '--regid', String(uid), '--clear-groups', '--no-new-privs'];
  const probe = ['bwrap', '--unshare-user', '--unshare-pid', '--ro-bind', '/', '/', 'true'];
  const { status } = spawnSync('setpriv', [...ordinary, ...probe], { cwd: '/' });
  if (status !== 0) return t.skip('bubblewrap is not installed, or does not work here');
  const home = temporaryDirectory(t);
  chmodSync(home, 0o711);
  const node = join(home, 'node');
  const environment = `HOME=${join(home, 'home')}`;
  const words = ['setpriv', ...ordinary, 'env', environment, process.execPath];
  writeFileSync(node, `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`, { mode: 0o755 });
  // Enough memory for 2,048 shells, so that builds reach the process limit first. On a busy machine the limit is 128.
  await using host = new Cellar({ RUNNER_BUILD_MEMORY_MB: '1000' }, node);
  for (const path of [host.data, join(home, 'home')]) {
    mkdirSync(path, { mode: 0o700 });
    chownSync(path, uid, uid);
  }
  giveCloneTo(host);
  await host.start();
  await assertWalled(host, join(host.data, 'host.sqlite'));
  assert.match(host.output, /share the host's own user.* see=docs\/security\.md#apps why=/);
  assert.doesNotMatch(host.output, /builds see this machine's files/);
  const printed = await build(host, HOG);
  assert.match(printed, /deploy failed: .*1000 MiB of memory.*RUNNER_BUILD_MEMORY_MB/);
  const failed = await build(host, '', BOMB);
  assert.match(failed.slice(-500), /deploy failed: .*(2048|128) processes and threads/);
  const wentOn = await build(host, '', `${BOMB} || true`);
  assert.match(wentOn, /`npm run build` reached a limit and continued: .*(2048|128) processes and threads/);
  assert.match(wentOn, /serves this push/);
});

test('no process of a build outlives a killed host', NEEDS_SANDBOX, async () => {
  await using host = await new Cellar().start();
  const running = () => processes().filter(({ command }) => command.includes('611.75'));
  const pushed = build(
    host,
    `
    import { spawn } from 'node:child_process';
    spawn('setsid', ['sh', '-c', 'sleep 611.75 & wait'], { detached: true, stdio: 'ignore' }).unref();
    setInterval(() => {}, 1000);`,
  );
  await eventually(() => running().length > 0, 'the build runs');
  await host.stop('SIGKILL');
  await pushed.catch(() => {});
  await eventually(() => running().length === 0, 'what it started is gone');
});

test('a build that exceeds its memory limit fails, and its log names the setting', async () => {
  const printed = await build(cellar, HOG);
  assert.match(printed, /deploy failed: .*300 MiB of memory.*RUNNER_BUILD_MEMORY_MB/);
});

test('a fork bomb fails the build and leaves the machine running', async () => {
  const printed = await build(
    cellar,
    // A shell starts most of the processes, because it needs less CPU time than Node, and CPU time may be scarce.
    `import { spawn } from 'node:child_process';
    import { once } from 'node:events';
    const shell = spawn('/bin/sh', ['-c', 'mkfifo never; for n in $(seq 1900); do read line < never & done; echo; wait'], { stdio: ['ignore', 'pipe', 'inherit'] });
    await Promise.race([once(shell.stdout, 'data'), once(shell, 'exit')]);
    let refused = false;
    for (let n = 0; n < 6000 && !refused; n++) {
      const child = spawn('/bin/sleep', ['600']);
      child.on('error', ({ message }) => console.error(message));
      refused = child.pid === undefined;
    }
    await new Promise((resolve) => setImmediate(resolve));
    process.exit(3);`,
  );
  // Many small processes use memory too: either limit may be reached first.
  assert.match(printed, /deploy failed: .*((2048|128) processes and threads|300 MiB of memory)/);
});

test('a fork bomb in a shell script fails the build and says why', async () => {
  const printed = await build(cellar, '', BOMB);
  assert.match(printed.slice(-500), /deploy failed: .*((2048|128) processes and threads|300 MiB of memory)/);
});
