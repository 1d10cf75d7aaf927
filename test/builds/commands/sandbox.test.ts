// Builds under their own users, on a real host. Needs root to start.
// Runs as root too.
import assert from 'node:assert/strict';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { BuildFailure } from '../../../bundler/failure.ts';
import { checkOwner } from '../../../runtime/builds/usage/size.ts';
import { changeOwner } from '../../../runtime/isolation/rights.ts';
import { Cellar } from '../../support/e2e/cellar.ts';
import { eventually, processes } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';
import { NEEDS_USERS } from '../../support/users.ts';

let cellar: Cellar;
let builds = 0;
before(async () => {
  if (NEEDS_USERS.skip === undefined) cellar = await new Cellar().start();
});
after(() => cellar?.[Symbol.asyncDispose]());

/** Pushes a Worker whose build runs `script` with Node. Resolves with the output of the push, whole and as lines. */
async function buildWith(slug: string, script: string, more: Record<string, string> = {}) {
  const work = await cellar.checkout('hello');
  const files = {
    'package.json': JSON.stringify({ scripts: { build: 'node build.mjs' } }),
    'build.mjs': script,
    ...more,
  };
  for (const [path, content] of Object.entries(files)) writeFileSync(join(work, path), content);
  await cellar.commit(work, `build ${++builds}`);
  const { stderr } = await cellar.push(work, slug, '--force');
  const lines = stderr.split('\n').map((line) => line.replace(/^remote: /, '').trimEnd());
  return { lines, stderr };
}

const probe = (paths: string[]) => `
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
for (const path of ${JSON.stringify(paths)}) {
  try {
    statSync(path).isDirectory() ? readdirSync(path) : readFileSync(path);
    console.log('READ ' + path);
  } catch (error) {
    console.log(error.code + ' ' + path);
  }
  try {
    writeFileSync(path + '/x', '');
    console.log('WROTE ' + path);
  } catch {}
}
console.log('user', process.getuid(), process.getgid(), process.getgroups().join());
console.log(readFileSync('/proc/self/status', 'utf8').match(/NoNewPrivs:\\t1/)[0]);
`;

test(
  'a build runs as its own user and cannot read files of Cellar or of other apps',
  NEEDS_USERS,
  async () => {
    const other = await cellar.create('other');
    const packages = {
      'package.json': JSON.stringify({
        scripts: { build: 'mkdir -p $npm_config_cache && echo > $npm_config_cache/kept' },
      }),
    };
    const first = await buildWith('other', '', packages);
    assert.match(first.stderr, /serves this push/);
    const id = await cellar.create('curious');
    const inside = (...parts: string[]) => join(cellar.data, ...parts);
    const paths = [
      ...readdirSync(cellar.data).map((name) => inside(name)),
      cellar.data,
      inside('repos', `${id}.git`, 'config'),
      inside('releases', other),
      inside('data', other),
      inside('run', other),
      inside('caches', other),
      inside('caches', other, 'npm', 'kept'),
      `/proc/${cellar.pid}/environ`,
      `/proc/${cellar.pid}/fd`,
    ];
    for (const name of ['token', 'api-key', 'host.sqlite', 'control', 'repos', 'builds']) {
      assert.ok(paths.includes(inside(name)), name);
    }
    const { lines, stderr } = await buildWith('curious', probe(paths));
    assert.match(stderr, /serves this push/);
    // These parent directories exist in a sandbox, too, but they are empty there.
    const passages = [cellar.data, inside('builds'), inside('caches')];
    for (const path of paths.filter((each) => !passages.includes(each))) {
      const closed = [`EACCES ${path}`, `ENOENT ${path}`].some((line) => lines.includes(line));
      assert.ok(closed, `${path}\n${stderr}`);
    }
    assert.ok(!lines.some((line) => line.startsWith('WROTE')), stderr);
    const [, uid = '', gid = '', groups = ''] = /^user (\d+) (\d+) (.*)$/m.exec(lines.join('\n'))!;
    assert.ok(Number(uid) >= 200_000 && uid === gid, `${uid} ${gid}`);
    assert.ok(groups === gid || groups === '', groups);
    assert.ok(lines.includes('NoNewPrivs:  1'), stderr);
    assert.notEqual(statSync(inside('caches', other)).uid, Number(uid), 'each app has another user');
  },
);

test('an app keeps its user between builds and finds its cached files', NEEDS_USERS, async () => {
  await cellar.create('cached');
  const script = `
    import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
    const file = process.env.npm_config_cache + '/kept';
    console.log(existsSync(file) ? 'cached' : 'new', process.getuid());
    mkdirSync(process.env.npm_config_cache, { recursive: true });
    writeFileSync(file, '');
  `;
  const said = async () => {
    const { lines } = await buildWith('cached', script);
    return lines.find((line) => /^(cached|new) \d+$/.test(line))!.split(' ');
  };
  const [first, user] = await said();
  assert.equal(first, 'new');
  assert.deepEqual(await said(), ['cached', user]);
});

test('only the user of a build reads the programs that Cellar makes for it', NEEDS_USERS, async () => {
  await cellar.create('called');
  const { lines, stderr } = await buildWith(
    'called',
    `
    import { statSync } from 'node:fs';
    import { join } from 'node:path';
    const made = process.env.PATH.split(':').at(-1);
    for (const path of [made, join(made, 'pnpx')]) {
      const { mode, gid } = statSync(path);
      console.log((mode & 0o777).toString(8), gid === process.getgid());
    }`,
  );
  assert.equal(lines.filter((line) => line === '750 true').length, 2, stderr);
});

test('no process of a build outlives its step, in any session or directory', NEEDS_USERS, async () => {
  await cellar.create('daemon');
  const script = `
    import { spawn } from 'node:child_process';
    const child = spawn('sh', ['-c', 'trap "" TERM HUP; while :; do sleep 77.25 & wait; done'], {
      detached: true, stdio: 'ignore', cwd: '/', env: { PATH: process.env.PATH },
    });
    child.unref();
    console.log('daemon', child.pid);
  `;
  const { stderr } = await buildWith('daemon', script);
  assert.match(stderr, /serves this push/);
  const pid = /daemon (\d+)/.exec(stderr)?.[1];
  const left = () =>
    processes().some((process) => process.pid === Number(pid) || process.command.includes('77.25'));
  await eventually(() => !left(), 'no process of the build is left');
});

test('a build leaves no files in world-writable directories', NEEDS_USERS, async (t) => {
  await cellar.create('littering');
  const name = `cellar-litter-${process.pid}`;
  const places = ['/tmp', '/var/tmp', '/dev/shm'].filter((place) => existsSync(place));
  const kept = join('/tmp', `${name}-kept`);
  writeFileSync(kept, '');
  t.after(() => rmSync(kept));
  const script = `
    import { chmodSync, mkdirSync, symlinkSync } from 'node:fs';
    for (const [n, place] of ${JSON.stringify(places)}.entries()) {
      mkdirSync(place + '/${name}' + n + '/below', { recursive: true });
      chmodSync(place + '/${name}' + n, 0);
      symlinkSync('${kept}', place + '/${name}-link' + n);
      console.log('littered', place);
    }
  `;
  const { lines, stderr } = await buildWith('littering', script);
  for (const place of places) {
    assert.ok(lines.includes(`littered ${place}`), stderr);
    const litter = () =>
      readdirSync(place).filter((entry) => entry.startsWith(name) && join(place, entry) !== kept);
    await eventually(() => litter().length === 0, `nothing is left in ${place}`);
  }
  assert.ok(existsSync(kept));
});

test(
  'a file of another owner fails the build: it may be a hard link to an unreadable file',
  NEEDS_USERS,
  async (t) => {
    const directory = temporaryDirectory(t);
    const user = { uid: 200_001, gid: 200_001 };
    mkdirSync(join(directory, 'src'));
    writeFileSync(join(directory, 'src', 'index.js'), '');
    symlinkSync('/etc/hostname', join(directory, 'link'));
    await changeOwner([directory], user, 10_000);
    assert.equal(lstatSync(join(directory, 'link')).uid, user.uid);
    assert.equal(statSync('/etc/hostname').uid, 0, 'what a link points to is left alone');
    const { signal } = new AbortController();
    await checkOwner(directory, user, signal);
    const secret = join(temporaryDirectory(t), 'token');
    writeFileSync(secret, 'secret');
    linkSync(secret, join(directory, 'src', 'page.html'));
    await assert.rejects(
      checkOwner(directory, user, signal),
      new BuildFailure("src/page.html is a link to a file that is not the build's own"),
    );
  },
);

test(
  "if other users cannot run the host's Node, builds run as the host's user, and the log says why",
  NEEDS_USERS,
  async (t) => {
    const directory = temporaryDirectory(t);
    chmodSync(directory, 0o700);
    mkdirSync(join(directory, 'bin'));
    const node = join(directory, 'bin', 'node');
    copyFileSync(process.execPath, node);
    chmodSync(node, 0o755);
    await using closed = await new Cellar({}, node).start();
    assert.match(
      closed.output,
      new RegExp(`warn +builds and apps share the host's own user.*cannot reach ${node}`),
    );
    await closed.create('plain');
    const work = await closed.checkout('hello');
    writeFileSync(join(work, 'package.json'), '{"scripts": {"build": "echo I am $(id -u)"}}');
    await closed.commit(work, 'build');
    assert.match((await closed.push(work, 'plain')).stderr, /I am 0\b[\s\S]*serves this push/);
  },
);
