// Apps' processes under separate system users, on a real host, which needs root for them.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { asUser, type User } from '../../runtime/isolation/users.ts';
import { Cellar, COUNTER_CLASS, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { cells } from '../support/processes.ts';
import { NEEDS_USERS } from '../support/users.ts';

const COUNTER = {
  'index.js': `${COUNTER_CLASS}
    export default {
      fetch: async (_, { COUNTER }) => new Response(String(await COUNTER.getByName('one').add())),
    };`,
  'wrangler.toml': COUNTER_CONFIG,
  'package.json': '{"scripts": {"build": "true"}}',
};

const cellar = new Cellar();
const rpc = rpcOf(cellar);
before(async () => {
  if (NEEDS_USERS.skip === undefined) await cellar.start();
});
after(() => cellar[Symbol.asyncDispose]());

/** Returns the user of an app's only process, from `/proc`. */
function userOf(appId: string): User & { status: string } {
  const [cell, ...others] = cells(appId);
  assert.ok(cell && others.length === 0);
  const status = readFileSync(`/proc/${cell.pid}/status`, 'utf8');
  const id = (kind: string) => {
    const ids = new Set(new RegExp(`^${kind}:\t(.*)$`, 'm').exec(status)![1]!.split('\t'));
    assert.equal(ids.size, 1, `${kind}: real, effective and saved`);
    return Number([...ids][0]);
  };
  return { uid: id('Uid'), gid: id('Gid'), status };
}

/** Returns the rights of `user` by path: some of the letters `r`, `w`, `x`. */
function rights(user: User, paths: string[]): Record<string, string> {
  const ask = 'for p; do r=; for a in r w x; do [ -$a "$p" ] && r=$r$a; done; echo "$p=$r"; done';
  const [file, ...words] = asUser(user);
  const { stdout } = spawnSync(file!, [...words, 'sh', '-c', ask, 'sh', ...paths], {
    cwd: '/',
    encoding: 'utf8',
  });
  return Object.fromEntries(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split('=')),
  );
}

test(
  "an app's process has its own user, which can access only its release and storage",
  NEEDS_USERS,
  async () => {
    const [id, other] = await Promise.all(
      ['mine', 'other'].map((slug) => cellar.deploy(slug, 'hello', COUNTER)),
    );
    assert.equal((await cellar.get('mine')).text, '1');
    assert.equal((await cellar.get('other')).text, '1');
    const [user, foreign] = [userOf(id!), userOf(other!)];
    const build = statSync(join(cellar.data, 'caches', id!)).uid;
    assert.equal(new Set([user.uid, foreign.uid, build, process.getuid!()]).size, 4);
    assert.ok(user.uid > 16_000_000 && user.gid === user.uid, `${user.uid} ${user.gid}`);
    assert.match(user.status, /^Groups:\s*$/m);
    assert.match(user.status, /^CapEff:\t0+$/m);
    assert.match(user.status, /^NoNewPrivs:\t1$/m);

    const inside = (...parts: string[]) => join(cellar.data, ...parts);
    const belongings = (app: string) => {
      const release = inside('releases', app, readdirSync(inside('releases', app))[0]!);
      const files = readdirSync(inside('run', app)).find((name) => name.startsWith('cell-'))!;
      const config = inside('run', app, files, 'cell.capnp');
      const storage = readdirSync(inside('data', app, 'do')).map((name) => inside('data', app, 'do', name));
      return {
        passages: ['run', 'data', 'releases'].map((kind) => inside(kind, app)),
        read: [config, join(release, 'release.json')],
        write: [inside('run', app, 'new'), inside('data', app, 'kv'), ...storage],
        host: [inside('run', app, 'cell.pid')],
      };
    };
    const own = belongings(id!);
    const mine = rights(user, Object.values(own).flat());
    for (const path of own.passages) assert.equal(mine[path], 'x', path);
    for (const path of own.read) assert.equal(mine[path], 'r', path);
    for (const path of own.write) assert.equal(mine[path], 'rwx', path);
    for (const path of own.host) assert.equal(mine[path], '', path);

    const theirs = [...Object.values(belongings(other!)).flat(), inside('run', other!, 'http.sock')];
    for (const [path, right] of Object.entries(rights(user, theirs))) assert.equal(right, '', path);
    const passed = ['buckets', 'builds', 'caches', 'data', 'releases', 'run'];
    for (const name of readdirSync(cellar.data)) {
      const path = inside(name);
      assert.equal(rights(user, [path])[path], passed.includes(name) ? 'x' : '', name);
    }
  },
);

test(
  "at its start an app's user becomes the owner of storage and releases that belong to root",
  NEEDS_USERS,
  async () => {
    const id = await cellar.deploy('older', 'hello', COUNTER);
    assert.equal((await cellar.get('older')).text, '1');
    await cellar.stop();
    for (const kind of ['run', 'data', 'releases']) {
      const directory = join(cellar.data, kind, id);
      for (const path of ['', ...readdirSync(directory, { recursive: true, encoding: 'utf8' })]) {
        chownSync(join(directory, path), 0, 0);
      }
    }
    await cellar.start();
    assert.equal((await cellar.get('older')).text, '2');
    assert.notEqual(userOf(id).uid, 0);
  },
);

test(
  'orphaned processes of an app’s user are killed when the app is stopped or deleted, and when the host starts',
  NEEDS_USERS,
  async () => {
    const id = await cellar.deploy('stray', 'hello', COUNTER);
    assert.equal((await cellar.get('stray')).text, '1');
    const [file, ...words] = asUser(userOf(id));
    /** Asserts that `act` kills a stray process of the app's user. */
    const assertKills = async (act: () => Promise<unknown>) => {
      const stray = spawn(file!, [...words, 'sleep', '600'], { detached: true, cwd: '/', stdio: 'ignore' });
      const exit = once(stray, 'exit', { signal: AbortSignal.timeout(60_000) });
      await once(stray, 'spawn');
      await act();
      assert.deepEqual(await exit, [null, 'SIGKILL']);
    };
    const want = (desired_state: string) => cellar.call('PATCH', `/v1/apps/${id}`, { desired_state });
    await assertKills(() => want('stopped'));
    await want('running');
    assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`)).body.status, 'sleeping');
    await assertKills(() => want('stopped'));
    await assertKills(async () => {
      await cellar.stop('SIGKILL');
      await cellar.start();
    });
    await assertKills(() => cellar.call('DELETE', `/v1/apps/${id}`));
  },
);

test("only the app's own user can read the environment of its process", NEEDS_USERS, async () => {
  const id = await cellar.deploy('private', 'hello', COUNTER);
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'to-be-kept' });
  const environment = `/proc/${cells(id)[0]!.pid}/environ`;
  assert.ok(readFileSync(environment, 'utf8').includes('to-be-kept'));
  const [file, ...words] = asUser({ uid: 54_321, gid: 54_321 });
  assert.throws(
    () => execFileSync(file!, [...words, 'cat', environment], { cwd: '/', stdio: 'pipe' }),
    /Permission denied/,
  );
});

test(
  'the user of a preview owns its copy of the storage, and cannot read files of its app or of Cellar',
  NEEDS_USERS,
  async () => {
    const id = await cellar.deploy('walled', 'hello', COUNTER);
    await rpc('secrets.set', { id, name: 'TOKEN', value: 'abc' });
    await rpc('previews.set', { id, branches: true, storage: 'copy' });
    assert.equal((await cellar.get('walled')).text, '1');
    const before = new Set(readdirSync(join(cellar.data, 'data')));
    const work = await cellar.checkout('hello');
    for (const [name, text] of Object.entries(COUNTER)) writeFileSync(join(work, name), text);
    await cellar.commit(work, 'a branch');
    const { stderr } = await cellar.git(work, 'push', cellar.remote('walled'), 'HEAD:refs/heads/spy');
    assert.match(stderr, /shows this push/);
    assert.equal((await cellar.get('spy--walled')).text, '2');
    const preview = readdirSync(join(cellar.data, 'data')).find((each) => !before.has(each))!;
    const user = userOf(preview);
    assert.notEqual(user.uid, userOf(id).uid);
    const storage = join(cellar.data, 'data', preview, 'do');
    assert.equal(statSync(storage).uid, user.uid);
    assert.equal(rights(user, [storage])[storage], 'rwx');
    const closed = [`data/${id}/do`, `run/${id}`, `releases/${id}`, `caches/${id}`];
    const others = [...closed, 'secrets-key', 'host.sqlite', 'repos', 'uploads'];
    const paths = others.map((name) => join(cellar.data, name));
    for (const [path, right] of Object.entries(rights(user, paths))) assert.doesNotMatch(right, /[rw]/, path);
  },
);
