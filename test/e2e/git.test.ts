// Stock git through the edge and the control plane to the repository.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

/** Size of the pack of random bytes, in MB: more than the host's memory may grow. A pack of 300 MB takes the same memory. */
const PACK_MB = 60;

async function rpc(method: string, params: object) {
  const { body } = await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
  assert.equal(body.error, undefined, JSON.stringify(body.error));
  return body.result;
}

/** Makes an account with a role on an app and returns its key. */
async function member(app: string, name: string, role: string): Promise<string> {
  const { id: account } = await rpc('accounts.create', { name, email: `${name}@example.com` });
  await rpc('collaborators.set', { id: app, account, role });
  return (await rpc('keys.create', { account })).key;
}

/** Makes a repository that has nothing to deploy. */
async function emptyRepository(): Promise<string> {
  const work = mkdtempSync(join(cellar.directory, 'work-'));
  await cellar.git(work, 'init', '--quiet', '--initial-branch=main');
  return work;
}

test('each role allows exactly its operations over git', async () => {
  const id = await cellar.create('roles');
  const keys = {
    view: await member(id, 'viewer', 'view'),
    push: await member(id, 'pusher', 'push'),
    admin: await member(id, 'admin', 'admin'),
  };
  const work = await emptyRepository();
  const git = (...words: string[]) => cellar.git(work, ...words);
  const push = (role: keyof typeof keys, ...refs: string[]) =>
    git('push', '--force', cellar.remote('roles', keys[role]), ...refs);
  await cellar.commit(work, 'first');
  await git('tag', 'v1');

  const viewed = await push('view', 'HEAD:side');
  assert.notEqual(viewed.code, 0);
  assert.match(
    viewed.stderr,
    /^remote: This operation needs the role push on the app; your role is view\.$/m,
  );
  assert.match(viewed.stderr, /403/);
  const created = await push('push', 'HEAD:side', 'v1');
  assert.equal(created.code, 0, created.stderr);
  assert.match(created.stderr, /remote: Only pushes to main deploy/);
  await cellar.commit(work, 'second');
  assert.equal((await push('push', 'HEAD:side')).code, 0, 'a fast-forward');
  const listed = await git('ls-remote', cellar.remote('roles', keys.view));
  assert.equal(listed.stdout.trim().split('\n').length, 2);

  const deleted = await push('push', ':side', 'HEAD:other');
  assert.notEqual(deleted.code, 0);
  assert.match(deleted.stderr, /! \[remote rejected\] side \(deleting needs the role admin\)/);
  assert.match(
    deleted.stderr,
    /! \[remote rejected\] HEAD -> other \(refused, because another ref of this push is refused\)/,
  );
  await git('tag', '--force', 'v1');
  const moved = await push('push', 'v1');
  assert.notEqual(moved.code, 0);
  assert.match(
    moved.stderr,
    /! \[remote rejected\] v1 -> v1 \(moving a ref that is not a branch needs the role admin\)/,
  );
  await git('reset', '--quiet', '--hard', 'HEAD~1');
  await cellar.commit(work, 'elsewhere');
  assert.match((await push('push', 'HEAD:side')).stderr, /remote rejected.*non-fast-forward/);

  const allowed = await push('admin', 'HEAD:side', 'v1');
  assert.equal(allowed.code, 0, allowed.stderr);
  const gone = await push('admin', ':side', ':v1');
  assert.equal(gone.code, 0, gone.stderr);
  assert.equal((await git('ls-remote', cellar.remote('roles'))).stdout, '');
});

test('git shows its user why a key or a slug is refused', async () => {
  await cellar.create('asked');
  const work = await emptyRepository();
  const ask = async (slug: string, key: string) =>
    (await cellar.git(work, 'ls-remote', cellar.remote(slug, key))).stderr;
  assert.match(await ask('asked', 'wrong'), /^remote: The API key is wrong\.\nfatal: Authentication failed/m);
  assert.match(
    await ask('nowhere', cellar.key),
    /^remote: There is no app nowhere\.\nfatal: repository .* not found/m,
  );
});

test('the commands of git-remote clone and push once the key is filled in', async () => {
  const id = await cellar.create('pasted');
  const { clone, push } = (await cellar.call('POST', `/v1/apps/${id}/git-remote`)).body;
  const paste = (directory: string, command: string) =>
    cellar.git(directory, '-c', `alias.paste=!${command.replace('<API_KEY>', cellar.key)}`, 'paste');
  const cloned = await paste(cellar.directory, clone);
  assert.match(cloned.stderr, /cloned an empty repository/);
  const work = join(cellar.directory, 'pasted');
  writeFileSync(join(work, 'index.html'), 'a page');
  await cellar.commit(work, 'a page');
  assert.match((await paste(work, push)).stderr, /serves this push/);
});

test('a push of many refs deploys only main', async () => {
  const id = await cellar.create('many');
  const work = await cellar.checkout('hello');
  const branches = Array.from({ length: 200 }, (_, n) => `HEAD:refs/heads/branch-${n}`);
  const key = await member(id, 'many-pusher', 'push');
  const pushed = await cellar.git(
    work,
    'push',
    cellar.remote('many', key),
    ...branches,
    'HEAD:main',
    'HEAD:refs/tags/v1',
  );
  assert.equal(pushed.code, 0, pushed.stderr);
  assert.match(pushed.stderr, /serves this push/);
  assert.equal((await cellar.get('many')).status, 200);
  const { items } = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body;
  assert.deepEqual([items.length, items[0].ref], [1, 'refs/heads/main']);

  const deleted = await cellar.git(work, 'push', cellar.remote('many'), ':main');
  assert.match(deleted.stderr, /remote: main was deleted; the live release continues to serve/);
  assert.equal((await cellar.get('many')).status, 200);
});

test('clones of every kind, pushes from them, and concurrent pushes succeed', async () => {
  const id = await cellar.create('kinds');
  const key = await member(id, 'kinds-pusher', 'push');
  const remote = cellar.remote('kinds', key);
  const work = await emptyRepository();
  const git = (directory: string, ...words: string[]) => cellar.git(directory, ...words);
  for (let n = 0; n < 40; n++) {
    writeFileSync(join(work, 'file.txt'), `content ${n}\n`);
    await cellar.commit(work, `commit ${n}`);
  }
  const branches = Array.from({ length: 40 }, (_, n) => `HEAD~${n}:refs/heads/branch-${n}`);
  assert.equal((await git(work, 'push', remote, ...branches)).code, 0);
  assert.equal((await git(work, 'push', remote, 'HEAD:refs/heads/known')).code, 0, 'without an object');
  const clone = async (name: string, ...options: string[]) => {
    const directory = join(cellar.directory, name);
    const words = ['clone', '--quiet', '--branch=branch-0', ...options, remote, directory];
    const { code, stderr } = await git(cellar.directory, ...words);
    assert.equal(code, 0, stderr);
    return directory;
  };

  // git compresses a request with 40 wants.
  for (const version of ['0', '1', '2']) {
    const copy = await clone(`version-${version}`, `--config=protocol.version=${version}`);
    assert.equal((await git(copy, 'branch', '--remotes')).stdout.trim().split('\n').length, 41);
  }
  const shallow = await clone('shallow', '--depth=1');
  await cellar.commit(shallow, 'from shallow');
  const pushed = await git(shallow, 'push', remote, 'HEAD:branch-0');
  assert.equal(pushed.code, 0, pushed.stderr);
  assert.equal((await git(shallow, 'fetch', '--quiet', '--unshallow')).code, 0);
  assert.equal((await git(shallow, 'rev-list', '--count', 'HEAD')).stdout.trim(), '41');
  await cellar.create('unfounded');
  const shallowest = await clone('shallowest', '--depth=1');
  const refused = await git(shallowest, 'push', cellar.remote('unfounded'), 'HEAD:main');
  assert.match(refused.stderr, /! \[remote rejected\] HEAD -> main \(shallow update not allowed\)/);
  const partial = await clone('partial', '--no-checkout', '--filter=blob:none');
  assert.match((await git(partial, 'show', 'HEAD~5:file.txt')).stdout, /content 35/);

  const racers = await Promise.all(['one', 'two', 'three'].map((name) => clone(name)));
  for (const racer of racers) await cellar.commit(racer, racer);
  const results = await Promise.all(racers.map((racer) => git(racer, 'push', remote, 'HEAD:branch-0')));
  assert.equal(results.filter(({ code }) => code === 0).length, 1);
  for (const { code, stderr } of results) if (code !== 0) assert.match(stderr, /! \[(remote )?rejected\]/);
});

test(`a push and a clone of ${PACK_MB} MB hardly increase the host's memory`, async () => {
  const id = await cellar.create('large');
  const key = await member(id, 'large-pusher', 'push');
  const work = await emptyRepository();
  // Random bytes do not compress.
  await cellar.git(work, 'config', 'core.compression', '0');
  await cellar.git(work, 'config', 'core.bigFileThreshold', '1m');
  const push = async (megabytes: number) => {
    const parts = Array.from({ length: megabytes }, () => randomBytes(1_000_000));
    writeFileSync(join(work, `${megabytes}.bin`), Buffer.concat(parts));
    await cellar.commit(work, 'large');
    const pushed = await cellar.git(work, 'push', cellar.remote('large', key), 'HEAD:side');
    assert.equal(pushed.code, 0, pushed.stderr);
  };
  // A first push takes memory that does not depend on the pack.
  await push(10);
  const before = residentBytes();
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, residentBytes());
  }, 20);
  await push(PACK_MB);
  clearInterval(watch);
  const grown = Math.round((peak - before) / 1e6);
  assert.ok(grown < 50, `the host grew by ${grown} MB`);
  const refused = await cellar.git(work, 'push', cellar.remote('large', key), 'HEAD:refused', ':side');
  assert.match(refused.stderr, /remote rejected/, 'git shows the refusal');
  writeFileSync(join(work, 'more.bin'), randomBytes(20_000_000));
  await cellar.commit(work, 'more');
  const refusedLarge = await cellar.git(work, 'push', cellar.remote('large', key), 'HEAD:refused', ':side');
  assert.match(refusedLarge.stderr, /remote rejected/, 'git shows the refusal of a large pack');
  const clone = await cellar.git(work, 'clone', '--quiet', '--bare', cellar.remote('large', key), 'copy.git');
  assert.equal(clone.code, 0, clone.stderr);
});

/** Returns the resident memory of the host's process. */
function residentBytes(): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${cellar.pid}/status`, 'utf8'))!;
  return Number(kilobytes) * 1024;
}
