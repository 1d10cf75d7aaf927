// Snapshots of an app whose files another process changes meanwhile, as a process that escaped its sandbox could.
// Runs as root too.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { layout } from '../../runtime/disk/data-directory.ts';
import { asUser, type User } from '../../runtime/isolation/users.ts';
import type { Part } from '../../runtime/snapshots/store/manifest.ts';
import { PackReader, PackWriter } from '../../runtime/snapshots/store/packs.ts';
import { openStore } from '../../runtime/snapshots/store/place.ts';
import { Capture } from '../../runtime/snapshots/take/capture.ts';
import { list } from '../../runtime/snapshots/take/listing.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const ID = 'a'.repeat(16);
const SECRET = 'what-only-the-host-may-read';

/** Starts a process of `user` that repeats the steps, ignoring errors, until disposed of. Resolves when it has begun. */
async function attack(steps: string[], user: User | null): Promise<AsyncDisposable> {
  const each = steps.map((step) => `try { ${step} } catch {}`).join('\n');
  const code = `import * as fs from 'node:fs'; import { execFileSync } from 'node:child_process';
    for (let n = 0; ; n++) { ${each}\n if (n === 3) console.log('begun'); }`;
  const words = [
    ...(user === null ? [] : asUser(user)),
    process.execPath,
    '--input-type=module',
    '--eval',
    code,
  ];
  const child = spawn(words[0]!, words.slice(1), { cwd: '/', stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  await once(child.stdout!, 'data');
  return {
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

interface Prepared {
  user: User | null;
  /** Path of the app's storage. */
  storage: string;
  /** Path of a directory that only the host may read. */
  secret: string;
  read: () => Promise<Part>;
  contents: (part: Part) => Promise<string>;
}

/** Makes an app with a file. When this process is root, the app has a user of its own. */
function prepared(t: TestContext): Prepared {
  const root = temporaryDirectory(t);
  const paths = layout(join(root, 'd'));
  const uid = 40_900_000 + (process.pid % 100_000);
  const user = process.getuid!() === 0 ? { uid, gid: uid } : null;
  for (const path of [root, paths.root, dirname(paths.data(ID))]) {
    mkdirSync(path, { recursive: true });
    chmodSync(path, 0o711);
  }
  const storage = join(paths.data(ID), 'do');
  const secret = join(root, 'secret');
  for (const path of [join(storage, 'x'), join(secret, SECRET)]) mkdirSync(path, { recursive: true });
  writeFileSync(join(secret, 'file'), SECRET);
  chmodSync(secret, 0o700);
  writeFileSync(join(storage, 'x', 'file'), 'own'.repeat(100_000));
  if (user !== null) spawnSync('chown', ['-R', `${uid}:${uid}`, storage]);
  const store = openStore({ directory: join(root, 'store') });
  const packs = new PackWriter(store, []);
  return {
    ...{ user, storage, secret },
    async read() {
      const capture = new Capture({ paths, packs, bucket: null, holdBuckets: async () => {}, before: [] });
      return capture.app({ id: ID, slug: 'a', liveDeployId: null, user, isInBucket: false });
    },
    async contents({ files }) {
      await packs.finish();
      const reader = new PackReader(store);
      let text = '';
      for (const { path, chunks } of files) {
        text += `${path}\n`;
        for (const chunk of chunks) text += (await reader.read(chunk)).toString('latin1');
      }
      return text;
    },
  };
}

test('a directory that becomes a link while it is listed is not followed', async (t) => {
  const { storage, secret, user } = prepared(t);
  const [own, aside] = [join(storage, 'x'), join(storage, 'y')].map((path) => JSON.stringify(path)) as [
    string,
    string,
  ];
  await using _attack = await attack(
    [
      `fs.renameSync(${own}, ${aside})`,
      `fs.symlinkSync(${JSON.stringify(secret)}, ${own})`,
      `fs.unlinkSync(${own})`,
      `fs.renameSync(${aside}, ${own})`,
    ],
    user,
  );
  for (let n = 0; n < 5_000; n++) {
    const found = list(storage, { databases: true }).find(({ path }) => path.includes(SECRET));
    assert.equal(found, undefined, `listing ${n}`);
  }
});

test('files that change in every way during a snapshot give an app its own bytes, or an error in time', {
  timeout: 120_000,
}, async (t) => {
  const { storage, secret, user, read, contents } = prepared(t);
  const file = JSON.stringify(join(storage, 'x', 'file'));
  const database = JSON.stringify(join(storage, 'x', 'data.sqlite'));
  const target = JSON.stringify(join(secret, 'file'));
  const anew = (path: string, ways: string[]) =>
    ways.flatMap((way) => [`fs.rmSync(${path}, { force: true })`, way]);
  await using _attack = await attack(
    [file, database].flatMap((path) =>
      anew(path, [
        `fs.writeFileSync(${path}, 'own'.repeat(300_000)); fs.truncateSync(${path}, 10)`,
        `fs.symlinkSync(${target}, ${path})`,
        `fs.mkdirSync(${path}); fs.rmdirSync(${path})`,
        `fs.linkSync(${target}, ${path})`,
        `execFileSync('mkfifo', [${path}])`,
        `fs.writeFileSync(${path}, 'own'.repeat(200_000))`,
      ]),
    ),
    user,
  );
  const outcomes: string[] = [];
  for (let n = 0; n < 12; n++) {
    const outcome = await read().then(contents, (error: Error) => error.message);
    if (user !== null) assert.ok(!outcome.includes(SECRET), outcome.slice(0, 500));
    outcomes.push(outcome.slice(0, 80));
  }
  t.diagnostic([...new Set(outcomes)].join(' | ').replaceAll('\n', ' '));
});

test('a sparse file is not read, and the others are no longer than they are on the disk', {
  timeout: 120_000,
}, async (t) => {
  const { storage, read, user } = prepared(t);
  const sparse = join(storage, 'x', 'huge');
  writeFileSync(sparse, 'x');
  truncateSync(sparse, 2 ** 43);
  if (user !== null) chownSync(sparse, user.uid, user.gid);
  await assert.rejects(read(), /huge: the file is sparse: only \d+ of its 8796093022208 bytes are stored/);
});

test('too deep directories are refused', (t) => {
  const { storage } = prepared(t);
  let deep = join(storage, 'x');
  for (let n = 0; n < 120; n++) {
    deep = join(deep, 'd');
    mkdirSync(deep);
  }
  const open = readdirSync('/proc/self/fd').length;
  assert.throws(() => list(storage, { databases: true }), /has directories in more than 100 others/);
  assert.equal(readdirSync('/proc/self/fd').length, open, 'none of them stays open');
});
