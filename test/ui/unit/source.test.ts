// The source of an app: its tree of files, and uncommitted changes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeOf, draftsOf, hasDrafts } from '../../../ui/models/drafts.ts';
import {
  buildTree,
  filterFiles,
  foldersOf,
  pathFault,
  type TreeNode,
} from '../../../ui/models/source/tree.ts';
import { type Session, session } from '../../../ui/session.ts';

const files = ['b.ts', 'a/z.ts', 'a/b/c.ts', 'a.ts'].map((path) => ({ path, size: 1 }));

test('files are sorted as a tree: folders first, then by name', () => {
  const names = (nodes: TreeNode[]): unknown[] =>
    nodes.map(({ name, children }) => (children === null ? name : [name, names(children)]));
  assert.deepEqual(names(buildTree(files)), [['a', [['b', ['c.ts']], 'z.ts']], 'a.ts', 'b.ts']);
  assert.deepEqual(foldersOf('a/b/c.ts'), ['a', 'a/b']);
  assert.deepEqual(
    filterFiles(files, 'a C').map(({ path }) => path),
    ['a/b/c.ts'],
  );
});

test('a new file needs a path that is free', () => {
  assert.equal(pathFault('a/new.ts', files), null);
  for (const path of ['', '/a', 'a/', 'a//b', '../x', '.git/x', 'b.ts', 'a', 'b.ts/x'])
    assert.notEqual(pathFault(path, files), null, path);
});

test('a draft has the kind of its change, and ends when the text is as before', () => {
  const drafts = draftsOf('shop');
  drafts.write('a.ts', 'new', 'old');
  drafts.write('b.ts', '', null);
  drafts.remove('c.ts', 'old');
  assert.ok(hasDrafts());
  assert.deepEqual(
    drafts.list.value.map((draft) => [draft.path, changeOf(draft)]),
    [
      ['a.ts', 'modified'],
      ['b.ts', 'added'],
      ['c.ts', 'deleted'],
    ],
  );
  drafts.write('a.ts', 'old', 'old');
  drafts.remove('b.ts', null);
  drafts.discard('c.ts');
  assert.ok(!hasDrafts());
});

test('drafts stay when the same person signs in again, and are removed for another person', () => {
  const signIn = (id: string) => {
    session.value = { account: { id } } as Session;
  };
  signIn('ada');
  draftsOf('shop').write('a.ts', 'new', 'old');
  session.value = null;
  signIn('ada');
  assert.equal(hasDrafts(), true);
  session.value = null;
  signIn('grace');
  assert.equal(hasDrafts(), false);
  assert.deepEqual(draftsOf('shop').list.value, []);
});
