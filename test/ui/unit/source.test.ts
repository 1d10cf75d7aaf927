// The source of an app: its tree of files, and uncommitted changes.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Failure } from '../../../ui/api.ts';
import { changeOf, draftsOf, hasDrafts } from '../../../ui/models/drafts.ts';
import { sourceModel } from '../../../ui/models/source/source.ts';
import {
  buildTree,
  filterFiles,
  foldersOf,
  pathFault,
  type TreeNode,
} from '../../../ui/models/source/tree.ts';
import { setQuery } from '../../../ui/router.ts';
import { type Session, session } from '../../../ui/session.ts';
import { eventually } from '../../support/processes.ts';

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

test('a draft keeps the text on main that its change began from', () => {
  const drafts = draftsOf('shop');
  drafts.write('a.ts', 'new', 'old');
  drafts.write('a.ts', 'newer', 'of another person');
  assert.deepEqual(drafts.list.value, [{ path: 'a.ts', text: 'newer', was: 'old' }]);
  drafts.setMain('a.ts', 'newer');
  assert.ok(!hasDrafts(), 'main has its text');
});

/** Fakes the API of an app. `main` has the texts of its files; a binary file is null. */
function fakeMain(t: TestContext, main: Record<string, string | null>) {
  const server = { sha: '1'.repeat(40), main, commits: [] as unknown[], isDown: false, onCommit: () => {} };
  Object.assign(globalThis, { document: Object.assign(new EventTarget(), { visibilityState: 'visible' }) });
  const answer = (
    method: string,
    params: { path: string; ref?: string; parent?: string; files: unknown },
  ) => {
    if (method === 'source.tree' && server.isDown)
      return { error: { data: { status: 503, code: 'host_unavailable', detail: 'The host is away.' } } };
    if (method === 'source.tree') return { result: { sha: server.sha, items: [], next_cursor: null } };
    if (method === 'source.diff') return { result: { from: null, to: null, files: [] } };
    if (method === 'source.commit') {
      server.commits.push([params.parent, params.files]);
      server.onCommit();
      return { result: { sha: '9'.repeat(40), deploy_id: 'd1' } };
    }
    assert.deepEqual([method, params.ref ?? server.sha], ['source.blob', server.sha]);
    const text = server.main[params.path];
    if (text === undefined) return { error: { data: { status: 404, code: 'path_not_found', detail: '' } } };
    const content_type = text === null ? 'application/octet-stream' : 'text/plain';
    const sha = server.sha;
    return { result: { path: params.path, sha, content_type, content_base64: btoa(text ?? '\0') } };
  };
  t.mock.method(globalThis, 'fetch', async (_: string, { body }: { body: string }) => {
    const { method, params } = JSON.parse(body);
    return Response.json(answer(method, params));
  });
  session.value = { account: { id: 'ada', name: 'Ada', email: 'ada@example.com' } } as Session;
  return server;
}

test('a file that another person changed is not overwritten before its difference is shown', async (t) => {
  const server = fakeMain(t, { 'a.ts': 'one', 'c.ts': 'one' });
  const model = sourceModel('store', '');
  t.after(model.close);
  const { drafts } = model;
  drafts.write('a.ts', "Ada's", 'one');
  drafts.write('new.ts', "Ada's", null);
  drafts.write('binary', "Ada's", null);
  drafts.remove('c.ts', 'one');
  drafts.write('d.ts', 'both', 'one');
  Object.assign(server, {
    sha: '2'.repeat(40),
    main: { 'a.ts': "Bob's", 'new.ts': "Bob's", 'd.ts': 'both' },
  });
  await model.tree.refresh();

  await assert.rejects(model.commit('Change'), /a\.ts, c\.ts, d\.ts, new\.ts/);
  assert.deepEqual(server.commits, []);
  assert.deepEqual(drafts.list.value, [
    { path: 'a.ts', text: "Ada's", was: "Bob's" },
    { path: 'binary', text: "Ada's", was: null },
    { path: 'new.ts', text: "Ada's", was: "Bob's" },
  ]);

  server.main.binary = null;
  await assert.rejects(model.commit('Change'), /^Error: binary is a binary file/);
  assert.deepEqual(server.commits, []);
  drafts.discard('binary');
  // The person types on while the commit is sent.
  server.onCommit = () => drafts.write('a.ts', 'more', null);
  assert.equal(await model.commit('Change'), 'd1');
  const files = ['a.ts', 'new.ts'].map((path) => ({ path, content: "Ada's" }));
  assert.deepEqual(server.commits, [[server.sha, files]]);
  assert.deepEqual(drafts.list.value, [{ path: 'a.ts', text: 'more', was: "Ada's" }]);
  drafts.discard('a.ts');
});

test('no draft gets a new base when main cannot be read for another draft', async (t) => {
  const server = fakeMain(t, { 'a.ts': "Bob's", 'b.ts': null });
  const model = sourceModel('store', '');
  t.after(model.close);
  const { drafts } = model;
  for (const path of ['a.ts', 'b.ts']) drafts.write(path, "Ada's", 'one');
  const before = drafts.list.value;
  await model.tree.refresh();
  await assert.rejects(model.commit('Change'), /^Error: b\.ts is a binary file/);
  assert.deepEqual(drafts.list.value, before);
  server.main['b.ts'] = 'one';
  await assert.rejects(model.commit('Change'), /^Error: a\.ts changed on main/);
  assert.deepEqual(server.commits, []);
  for (const { path } of before) drafts.discard(path);
});

test('drafts are compared with main a few at a time', async (t) => {
  fakeMain(t, {});
  const model = sourceModel('store', '');
  t.after(model.close);
  for (let n = 0; n < 10; n++) model.drafts.write(`${n}.ts`, "Ada's", null);
  await model.tree.refresh();
  const answer = globalThis.fetch;
  let [running, most] = [0, 0];
  t.mock.method(globalThis, 'fetch', async (...call: Parameters<typeof fetch>) => {
    most = Math.max(most, ++running);
    // All calls that are made at the same time have begun.
    await new Promise(setImmediate);
    running--;
    return answer(...call);
  });
  await model.commit('Add');
  assert.equal(most, 4);
});

test('a binary file is deleted, after a question when another person has changed it', async (t) => {
  const server = fakeMain(t, { 'logo.png': null });
  const model = sourceModel('store', 'logo.png');
  t.after(model.close);
  await Promise.all([model.tree.refresh(), model.file.refresh()]);
  const { path, base } = model.file.data.value!;
  model.drafts.remove(path, base);
  assert.deepEqual(model.drafts.list.value.map(changeOf), ['deleted']);
  server.sha = '2'.repeat(40);
  await assert.rejects(model.readAgain(), /^Error: logo\.png changed on main/);
  await model.commit('Delete');
  assert.deepEqual(server.commits, [[server.sha, [{ path, delete: true }]]]);
  assert.deepEqual(model.drafts.list.value, []);
});

test('another commit that main got at the same time is compared too', async (t) => {
  const server = fakeMain(t, { 'a.ts': 'one' });
  const model = sourceModel('store', '');
  t.after(model.close);
  model.drafts.write('a.ts', "Ada's", 'one');
  await model.tree.refresh();
  Object.assign(server, { sha: '2'.repeat(40), main: { 'a.ts': "Bob's" } });
  await assert.rejects(model.readAgain(), ({ message }: Failure) => message.startsWith('a.ts'));
  assert.deepEqual(model.drafts.list.value, [{ path: 'a.ts', text: "Ada's", was: "Bob's" }]);
  await model.readAgain();
  model.drafts.discard('a.ts');
});

test('a file that others have added meanwhile is read, so that the draft of it can be discarded', async (t) => {
  const server = fakeMain(t, {});
  const model = sourceModel('store', 'new.ts');
  t.after(model.close);
  model.drafts.write('new.ts', "Ada's", null);
  await model.file.refresh();
  assert.equal(model.file.data.value, null);
  server.main['new.ts'] = "Bob's";
  await assert.rejects(model.readAgain(), /new\.ts/);
  model.drafts.discard('new.ts');
  await eventually(() => model.file.data.value?.text === "Bob's", 'the file of main is read');
});

test('nothing is compared or committed before main is read', async (t) => {
  const server = fakeMain(t, { 'a.ts': 'one' });
  server.isDown = true;
  const model = sourceModel('store', '');
  t.after(model.close);
  model.drafts.write('a.ts', "Ada's", 'one');
  const draft = { path: 'a.ts', text: "Ada's", was: 'one' };
  await assert.rejects(model.commit('Change'), /not read yet/);
  await assert.rejects(model.readAgain(), /is away/);
  assert.deepEqual([model.drafts.list.value, server.commits], [[draft], []]);
  server.isDown = false;
  await model.readAgain();
  // Another commit is shown.
  const history = {
    replaceState(_: unknown, __: string, path: string) {
      Object.assign(globalThis, { location: new URL(path, 'http://localhost') });
    },
  };
  Object.assign(globalThis, { history });
  setQuery({ ref: 'old' });
  await model.tree.refresh();
  await assert.rejects(model.commit('Change'), /not read yet/);
  setQuery({ ref: null });
  await model.tree.refresh();
  await model.commit('Change');
  assert.equal(server.commits.length, 1);
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
