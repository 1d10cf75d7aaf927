// The repository of an app in the bucket, through real git.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { cp, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { closeTransfers } from '../../../runtime/bucket/code/code-folder.ts';
import { changed } from '../../../runtime/bucket/code/refs.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { bucketRemote, inBucket } from '../../support/bucket/repositories.ts';
import { gitIn } from '../../support/git/remote.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

after(closeTransfers);

type Remote = Awaited<ReturnType<typeof bucketRemote>>;

async function commit({ git, work }: Remote, name: string): Promise<string> {
  writeFileSync(join(work, name), `content of ${name}`);
  await git('add', '.');
  await git('commit', '--quiet', `--message=${name}`);
  return (await git('rev-parse', 'HEAD')).printed.trim();
}

/** Pushes, and waits until the host has recorded that the disk matches the bucket. */
async function push({ git, url, repository, store }: Remote, ...words: string[]): Promise<void> {
  const { code, printed } = await git('push', url, ...words);
  assert.equal(code, 0, printed);
  const marker = join(repository, 'cellar-bucket.json');
  const noted = async () => JSON.parse(await readFile(marker, 'utf8').catch(() => '{}')).etag;
  await eventually(async () => (await noted()) === inBucket(store).etag, 'the push has ended');
}

/** Returns the refs that the host serves. */
async function served({ git, url }: Remote): Promise<Record<string, string>> {
  const { code, printed } = await git('ls-remote', '--refs', url);
  assert.equal(code, 0, printed);
  const lines = printed.split('\n').filter(Boolean);
  return Object.fromEntries(lines.map((line) => line.split('\t').reverse()));
}

async function localRefs({ repository }: Remote): Promise<Record<string, string>> {
  const { printed } = await gitIn(repository)('for-each-ref', '--format=%(refname) %(objectname)');
  return Object.fromEntries(
    printed
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split(' ')),
  );
}

test('branches, tags, deletions and forced pushes are in the bucket, and another machine has them', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  const first = await commit(host, 'a');
  await push(host, 'HEAD:main');
  assert.deepEqual(inBucket(store).refs, { 'refs/heads/main': first });
  const second = await commit(host, 'b');
  await host.git('tag', '--annotate', 'v1', '--message=one');
  await push(host, 'HEAD:main', 'HEAD:side', 'HEAD:gone', 'v1');
  const tag = (await host.git('rev-parse', 'v1')).printed.trim();
  const packs = inBucket(store).packs.length;
  await push(host, 'HEAD~1:refs/heads/old', ':gone');
  assert.equal(inBucket(store).packs.length, packs, 'no objects are new');
  await host.git('commit', '--quiet', '--amend', '--message=forced');
  const forced = (await host.git('rev-parse', 'HEAD')).printed.trim();
  await push(host, '--force', 'HEAD:main');
  const refs = {
    'refs/heads/main': forced,
    'refs/heads/old': first,
    'refs/heads/side': second,
    'refs/tags/v1': tag,
  };
  assert.deepEqual(inBucket(store).refs, refs);
  assert.deepEqual(await localRefs(host), refs);
  host.lose();
  assert.deepEqual(await served(host), refs);
  const { code, printed } = await host.git('clone', '--quiet', host.url, join(host.directory, 'clone'));
  assert.equal(code, 0, printed);
  const checked = await gitIn(host.repository)('fsck', '--strict');
  assert.equal(checked.code, 0, checked.printed);
});

test('a branch name may have Unicode spaces: every name that git accepts can be read again', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  const sha = await commit(host, 'a');
  const names = ['\u3000', '\u00a0', '\ufeff', '\u0085', '\u2028'].map(
    (space) => `refs/heads/a${space}b${space}`,
  );
  for (const name of names) await push(host, `HEAD:${name}`);
  const refs = Object.fromEntries(names.map((name) => [name, sha]));
  assert.deepEqual(inBucket(store).refs, refs);
  host.lose();
  assert.deepEqual(await served(host), refs);
  const update = { ref: 'refs/heads/a b', before: '0'.repeat(40), after: sha };
  assert.throws(() => changed({}, [update]), {
    status: 400,
    message: /"refs\/heads\/a b" is not a name of a branch/,
  });
});

test('a lock that a killed git left is removed after the last change, and no lock is removed during a change', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  await commit(host, 'a');
  await push(host, 'HEAD:main');
  await host.stored.settled();
  const heads = join(host.repository, 'refs', 'heads');
  await host.stored.during(async () => {
    writeFileSync(join(heads, 'main.lock'), '');
    await host.stored.during(async () => {});
    await host.stored.settled();
    assert.deepEqual(readdirSync(heads), ['main', 'main.lock'], 'the other change may hold it');
  });
  await host.stored.settled();
  assert.deepEqual(readdirSync(heads), ['main']);
  const second = await commit(host, 'b');
  await push(host, 'HEAD:main');
  assert.deepEqual(inBucket(store).refs, { 'refs/heads/main': second });
});

test('a refused push changes nothing in the bucket', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  await commit(host, 'a');
  await push(host, 'HEAD:main');
  await host.git('commit', '--quiet', '--amend', '--message=other');
  const before = inBucket(store);
  const { code, printed } = await host.git('push', '--force', host.as('push'), 'HEAD:main');
  assert.equal(code, 1);
  assert.match(printed, /non-fast-forward/);
  assert.deepEqual(inBucket(store), before);
});

test('a push during an outage is refused with the reason, and reads are served from the disk', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  const first = await commit(host, 'a');
  await push(host, 'HEAD:main');
  const second = await commit(host, 'b');
  store.faults = { isBusy: true };
  const { code, printed } = await host.git('push', host.url, 'HEAD:main');
  assert.equal(code, 1, printed);
  assert.match(printed, /remote: Cellar could not store the change of the repository in the bucket: .*503/);
  assert.deepEqual(await localRefs(host), { 'refs/heads/main': first });
  assert.deepEqual(await served(host), { 'refs/heads/main': first });
  store.faults = {};
  await push(host, 'HEAD:main');
  assert.deepEqual(inBucket(store).refs, { 'refs/heads/main': second });
});

test('a machine without a copy refuses to serve an empty repository during an outage', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  await commit(host, 'a');
  await push(host, 'HEAD:main');
  host.lose();
  store.faults = { isBusy: true };
  const reading = host.stored.reading(async () => {});
  await assert.rejects(reading, { status: 503, message: /the bucket/ });
  store.faults = {};
  assert.equal(Object.keys(await served(host)).length, 1);
});

test('a change that was stored before the host was killed is there after its restart', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  await commit(host, 'a');
  await push(host, 'HEAD:main', 'HEAD:gone');
  const copy = join(temporaryDirectory(t), 'before.git');
  await cp(host.repository, copy, { recursive: true });
  const second = await commit(host, 'b');
  await push(host, 'HEAD:main', 'HEAD:refs/heads/gone/below', ':gone');
  // Restores the disk from before the push, as if the host was killed before git moved the refs.
  await rm(host.repository, { recursive: true });
  await cp(copy, host.repository, { recursive: true });
  host.restart();
  const refs = { 'refs/heads/gone/below': second, 'refs/heads/main': second };
  assert.deepEqual(await served(host), refs);
  assert.deepEqual(await localRefs(host), refs);
});

test('a repository whose disk has lost objects is loaded anew', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  await commit(host, 'a');
  await push(host, 'HEAD:main');
  const refs = inBucket(store).refs;
  await rm(join(host.repository, 'objects'), { recursive: true });
  await rm(join(host.repository, 'refs', 'heads', 'main'));
  mkdirSync(join(host.repository, 'objects'));
  host.restart();
  await assert.rejects(
    host.stored.during(async () => {}),
    { status: 503 },
  );
  assert.deepEqual(await served(host), refs);
  assert.equal((await gitIn(host.repository)('fsck')).code, 0);
});

test('an answer of the bucket that is lost loses no push', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  await commit(host, 'a');
  await push(host, 'HEAD:main');
  store.faults = { losesReplies: true };
  const pushed = push(host, 'HEAD:refs/heads/same');
  await eventually(() => Object.keys(inBucket(store).refs).length === 2, 'it is in the bucket');
  store.faults = {};
  await pushed;
  assert.equal(Object.keys(await served(host)).length, 2);
});

test('two concurrent pushes are both stored, with a store that refuses quick writes', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  const first = await commit(host, 'a');
  await push(host, 'HEAD:main');
  store.faults = { refusesQuickWrites: true };
  await Promise.all(['one', 'two'].map((name) => host.git('push', host.url, `HEAD:refs/heads/${name}`)));
  const refs = { 'refs/heads/main': first, 'refs/heads/one': first, 'refs/heads/two': first };
  assert.deepEqual(inBucket(store).refs, refs);
  assert.deepEqual(await served(host), refs);
});

test('a push that is cut changes nothing, and the next one succeeds', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  const first = await commit(host, 'a');
  const cut = request(`${host.url}/git-receive-pack`, { method: 'POST' });
  cut.on('error', () => {});
  cut.setHeader('content-type', 'application/x-git-receive-pack-request');
  const line = `${'0'.repeat(40)} ${first} refs/heads/main\0 report-status`;
  cut.write(`${(line.length + 4).toString(16).padStart(4, '0')}${line}0000PACK`);
  await eventually(() => host.seen.length > 0, 'it has begun');
  cut.destroy();
  await push(host, 'HEAD:main');
  assert.deepEqual(inBucket(store), { ...inBucket(store), files: 1, refs: { 'refs/heads/main': first } });
});

test('of two machines on one bucket, the one that lags behind is refused and catches up', async (t) => {
  await using store = await new MemoryStore().start();
  const [host, other] = [await bucketRemote(t, store), await bucketRemote(t, store)];
  const first = await commit(host, 'a');
  await push(host, 'HEAD:main');
  assert.deepEqual(await served(other), { 'refs/heads/main': first });
  const second = await commit(host, 'b');
  await push(host, 'HEAD:main');
  const third = await commit(host, 'c');
  const late = await host.git('push', other.url, 'HEAD:refs/heads/side');
  assert.match(late.printed, /remote: .*another Cellar has just changed it; try again/);
  await eventually(
    async () => (await served(other))['refs/heads/main'] === second,
    'it has what the other one stored',
  );
  assert.equal((await host.git('push', other.url, 'HEAD:refs/heads/side')).code, 0);
  assert.deepEqual(inBucket(store).refs, { 'refs/heads/main': second, 'refs/heads/side': third });
});

test('a repository of before is stored at its first use', async (t) => {
  await using store = await new MemoryStore().start();
  const directory = temporaryDirectory(t);
  const host = await bucketRemote(t, store, directory);
  const first = await commit(host, 'a');
  await push(host, 'HEAD:main');
  store.objects.clear();
  await rm(join(host.repository, 'cellar-bucket.json'));
  host.restart();
  await served(host);
  assert.deepEqual(inBucket(store).refs, { 'refs/heads/main': first });
  host.lose();
  assert.deepEqual(await served(host), { 'refs/heads/main': first });
});

test('many packs become one, which has everything', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  let last = '';
  for (let n = 0; n < 20; n++) {
    last = await commit(host, `file-${n}`);
    await push(host, 'HEAD:main');
  }
  await eventually(
    () => inBucket(store).packs.length === 1 && inBucket(store).files === 1,
    'one pack is left',
  );
  host.lose();
  assert.deepEqual(await served(host), { 'refs/heads/main': last });
  const { code, printed } = await gitIn(host.repository)('log', '--oneline', 'main');
  assert.deepEqual([code, printed.trim().split('\n').length], [0, 20]);
});

test('a commit of the host is in the bucket before main moves, and a push that came first wins', async (t) => {
  await using store = await new MemoryStore().start();
  const host = await bucketRemote(t, store);
  const first = await commit(host, 'a');
  await push(host, 'HEAD:main');
  const update = { ref: 'refs/heads/main', before: '0'.repeat(40), after: first };
  const stored = host.stored.during(() => host.stored.store([update]));
  await assert.rejects(stored, { code: 'commit_conflict', message: /is at \w+ in the bucket/ });
  assert.deepEqual(inBucket(store).refs, { 'refs/heads/main': first });
});

test('a refs.json that leads elsewhere is refused by name, and nothing is written outside', async (t) => {
  await using store = await new MemoryStore().start();
  const directory = temporaryDirectory(t);
  const host = await bucketRemote(t, store, directory);
  const sha = await commit(host, 'a');
  await push(host, 'HEAD:main');
  const name = 'of/cellar/apps/app1/repository/refs.json';
  const object = store.objects.get(name)!;
  const [pack] = inBucket(store).packs as [string];
  const content = store.objects.get(`of/cellar/apps/app1/repository/packs/${pack}.pack`)!;
  const main = { 'refs/heads/main': sha };
  const hostile = [
    null,
    { format: 2 },
    { format: 1 },
    { format: 1, refs: main, packs: ['../../../../outside'] },
    { format: 1, refs: main, packs: [7] },
    { format: 1, refs: { ...main, [`refs/heads/a ${sha}\ndelete refs/heads/main`]: sha }, packs: [pack] },
    { format: 1, refs: { HEAD: sha }, packs: [pack] },
    { format: 1, refs: { 'refs/heads/main': `${sha} ` }, packs: [pack] },
  ];
  store.objects.set('of/cellar/apps/app1/outside.pack', content);
  host.lose();
  for (const refs of hostile) {
    store.objects.set(name, { ...object, body: Buffer.from(JSON.stringify(refs)) });
    host.restart();
    await assert.rejects(
      host.stored.reading(async () => {}),
      {
        status: 503,
        message: new RegExp(
          `load the repository from the bucket: ${name} cannot be used: .*remove that object`,
        ),
      },
    );
    assert.deepEqual(
      readdirSync(directory).filter((each) => each.includes('outside')),
      [],
    );
  }
  store.objects.set(name, object);
  host.restart();
  await host.stored.reading(async () => {});
  assert.deepEqual(await served(host), main);
});

test('branches and tags, and the bytes of their names, have a limit; fewer are always taken', () => {
  const sha = 'a'.repeat(40);
  const none = '0'.repeat(40);
  const long = (n: number) => `refs/heads/${'x/'.repeat(1_000)}${n}`;
  const refs = Object.fromEntries(Array.from({ length: 1_040 }, (_, n) => [long(n), sha]));
  const added = { ref: long(5_000), before: none, after: sha };
  const after = changed(refs, [added]);
  assert.equal(Object.keys(after).length, 1_041);
  const expected = {
    status: 400,
    message: /at most 20000 branches and tags, whose names have at most 2097152 bytes: delete some/,
  };
  assert.throws(() => changed(after, [{ ...added, ref: long(5_001) }]), expected);
  const older = { ...after, [long(6_000)]: sha, [long(6_001)]: sha };
  assert.equal(Object.keys(changed(older, [{ ref: long(6_000), before: sha, after: none }])).length, 1_042);
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`refs/tags/${n}`, sha]));
  assert.throws(() => changed(many, [added]), expected);
});
