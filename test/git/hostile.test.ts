// Objects that stock git would not make. They are refused on arrival, so that nobody checks them out or fetches them.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gitIn, remote } from '../support/git/remote.ts';

type Entry = [mode: string, name: string, kind: 'file' | 'folder'];

/** Pushes a commit whose tree has these entries, written as raw bytes. */
async function pushTree(t: TestContext, entries: Entry[]) {
  const app = await remote(t);
  const run = (words: string[], input: Buffer | string) =>
    execFileSync('git', ['-C', app.work, ...words], { input, encoding: 'utf8' }).trim();
  const file = run(['hash-object', '-w', '--stdin'], 'content');
  const folder = run(['mktree'], `100644 blob ${file}\tconfig\n`);
  const bytes = entries.map(([mode, name, kind]) =>
    Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(kind === 'file' ? file : folder, 'hex')]),
  );
  const tree = run(['hash-object', '-t', 'tree', '-w', '--stdin', '--literally'], Buffer.concat(bytes));
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  const sha = run([...identity, 'commit-tree', '-m', 'A commit', tree], '');
  return { ...app, pushed: await app.git('push', app.as('push'), `${sha}:refs/heads/main`) };
}

const REFUSED: [what: string, entries: Entry[], says: RegExp][] = [
  ['a folder ..', [['40000', '..', 'folder']], /hasDotdot/],
  ['a folder .', [['40000', '.', 'folder']], /hasDot:/],
  ['a folder .git', [['40000', '.git', 'folder']], /hasDotgit/],
  ['a folder .GIT', [['40000', '.GIT', 'folder']], /hasDotgit/],
  ['a name that NTFS takes for .git', [['40000', 'git~1', 'folder']], /hasDotgit/],
  ['a name that HFS takes for .git', [['40000', '.g\u200cit', 'folder']], /hasDotgit/],
  ['an absolute path', [['100644', '/etc/passwd', 'file']], /fullPathname/],
  ['a path that climbs', [['100644', 'a/../../b', 'file']], /fullPathname/],
  [
    'one name twice',
    [
      ['100644', 'a', 'file'],
      ['100644', 'a', 'file'],
    ],
    /duplicateEntries/,
  ],
  ['a link called .gitmodules', [['120000', '.gitmodules', 'file']], /gitmodulesSymlink/],
];

for (const [what, entries, says] of REFUSED) {
  test(`${what} is refused by name, and no object of it is kept`, async (t) => {
    const { pushed, repository } = await pushTree(t, entries);
    assert.notEqual(pushed.code, 0);
    assert.match(pushed.printed, says);
    assert.match(pushed.printed, /! \[remote rejected\] .* -> main \(unpacker error\)/);
    assert.equal((await gitIn(repository)('for-each-ref')).printed, '');
    assert.deepEqual(readdirSync(join(repository, 'objects')).sort(), ['info', 'pack']);
    assert.deepEqual(readdirSync(join(repository, 'objects', 'pack')), []);
  });
}

test('modes with a leading zero, which old tools wrote, are accepted', async (t) => {
  const { pushed } = await pushTree(t, [['040000', 'folder', 'folder']]);
  assert.equal(pushed.code, 0, pushed.printed);
});

test('two names that differ only in case are two files', async (t) => {
  const { pushed } = await pushTree(t, [
    ['100644', 'A', 'file'],
    ['100644', 'a', 'file'],
  ]);
  assert.equal(pushed.code, 0, pushed.printed);
});
