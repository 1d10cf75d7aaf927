// An app's source in the API: lists, files, diffs, and commits that deploy.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fetch } from 'undici';
import { sharedCellar } from '../support/e2e/shared.ts';
import { eventually } from '../support/processes.ts';

const cellar = sharedCellar('code');

const worker = (text: string) => `export default { fetch: () => new Response('${text}') };\n`;

/** Creates an app and pushes files, to main or another branch. */
async function withFiles(slug: string, files: Record<string, string | Buffer>, branch = 'main') {
  const id = await cellar.create(slug);
  const work = await cellar.checkout('hello');
  const push = async (more: Record<string, string | Buffer>) => {
    for (const [path, content] of Object.entries(more)) {
      mkdirSync(dirname(join(work, path)), { recursive: true });
      writeFileSync(join(work, path), content);
    }
    await cellar.commit(work, 'files');
    const { code, stderr } = await cellar.git(work, 'push', cellar.remote(slug), `HEAD:${branch}`);
    assert.equal(code, 0, stderr);
    return (await cellar.git(work, 'rev-parse', 'HEAD')).stdout.trim();
  };
  return { id, work, push, sha: await push(files) };
}

const get = (id: string, path: string) => cellar.call('GET', `/v1/apps/${id}/${path}`);
const read = (id: string, path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(`${cellar.api}/v1/apps/${id}/blob/${path}`, {
    method,
    headers: { authorization: `Bearer ${cellar.token}`, ...headers },
  });
// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
async function rpc(method: string, params: object): Promise<any> {
  return (await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params })).body;
}
const AUTHOR = { message: 'from the browser', author_email: 'ada@example.com' };
const commit = (id: string, files: object[], more: object = {}) =>
  cellar.call('POST', `/v1/apps/${id}/source/commit`, { ...AUTHOR, files, ...more });

/** Waits for the end of a deploy and returns it. */
async function ended(id: string, deployId: string) {
  let found: { status: string; trigger: string; sha: string } | undefined;
  await eventually(async () => {
    const { items } = (await get(id, 'deploys')).body;
    const deploy = items.find((item: { id: string }) => item.id === deployId);
    found = deploy;
    return deploy?.finished_at != null;
  }, 'the deploy has ended');
  return found!;
}

const paths = (items: { path: string }[]) => items.map(({ path }) => path);

test('the tree is listed by directory or recursively, at any ref, in pages of one commit', async () => {
  const { id, sha, push } = await withFiles('listed', {
    'src/a.txt': 'a',
    'src/deep/b.txt': 'bb',
    'ünï/ café.txt': 'c',
    ':(top)/x': 'd',
  });
  const root = (await get(id, 'tree')).body;
  assert.equal(root.sha, sha);
  assert.deepEqual(paths(root.items), [':(top)', 'index.js', 'src', 'ünï']);
  const [file] = root.items.filter(({ path }: { path: string }) => path === 'index.js');
  assert.deepEqual([file.type, file.mode], ['blob', '100644']);
  assert.ok(file.size > 0);

  const source = (await get(id, 'tree?path=src')).body;
  assert.deepEqual(
    source.items.map(({ path, type, size }: Record<string, unknown>) => [path, type, size]),
    [
      ['src/a.txt', 'blob', 1],
      ['src/deep', 'tree', null],
    ],
  );
  assert.deepEqual(paths((await get(id, 'tree?path=src/&recursive=true')).body.items), [
    'src/a.txt',
    'src/deep/b.txt',
  ]);
  assert.deepEqual(paths((await get(id, `tree?path=${encodeURIComponent(':(top)')}`)).body.items), [
    ':(top)/x',
  ]);

  const first = (await get(id, 'tree?recursive=true&limit=2')).body;
  await push({ '0-first.txt': 'new' });
  const second = (await get(id, `tree?recursive=true&limit=100&cursor=${first.next_cursor}`)).body;
  assert.equal(second.sha, sha);
  assert.equal(second.next_cursor, null);
  assert.deepEqual(paths([...first.items, ...second.items]), [
    ':(top)/x',
    'index.js',
    'src/a.txt',
    'src/deep/b.txt',
    'ünï/ café.txt',
  ]);
  assert.deepEqual(paths((await get(id, `tree?ref=${sha.slice(0, 10)}`)).body.items), paths(root.items));
  assert.equal((await get(id, 'tree?ref=main~1')).body.sha, sha);

  const refused: [string, number, string][] = [
    ['tree?path=nowhere', 404, 'path_not_found'],
    ['tree?path=index.js', 404, 'path_not_found'],
    ['tree?path=../..', 404, 'path_not_found'],
    ['tree?ref=nowhere', 404, 'ref_not_found'],
    ['tree?ref=--all', 400, 'invalid_input'],
    ['tree?ref=main:src', 400, 'invalid_input'],
    ['tree?cursor=xx', 400, 'invalid_input'],
  ];
  for (const [path, status, code] of refused) {
    const answer = await get(id, path);
    assert.deepEqual([answer.status, answer.body.code], [status, code], path);
  }
  assert.equal((await get('0123456789abcdef', 'tree')).body.code, 'app_not_found');
});

test('before the first push the tree and the diff are empty, and no file is found', async () => {
  const id = await cellar.create('empty');
  assert.deepEqual((await get(id, 'tree')).body, { sha: null, items: [], next_cursor: null });
  assert.equal((await read(id, 'index.js')).status, 404);
  assert.deepEqual((await get(id, 'diff')).body, {
    from: null,
    to: null,
    files: [],
    diff: '',
    truncated: false,
  });
});

test('a file is read raw, in ranges, and answered with 304 when the client has it', async () => {
  const large = randomBytes(700_000);
  const { id } = await withFiles('read', {
    'dir/page.html': '<script>alert(1)</script>\n',
    'dir/ü?.txt': 'odd name',
    'empty.txt': '',
    'dot.png': Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1]),
    'large.bin': large,
  });
  const page = await read(id, 'dir/page.html');
  assert.equal(await page.text(), '<script>alert(1)</script>\n');
  assert.equal(page.headers.get('content-type'), 'text/plain; charset=utf-8');
  assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
  assert.match(page.headers.get('content-security-policy')!, /sandbox/);
  const etag = page.headers.get('etag')!;
  const known = await read(id, 'dir/page.html', { 'if-none-match': `"other", W/${etag}` });
  assert.deepEqual([known.status, await known.text(), known.headers.get('etag')], [304, '', etag]);
  assert.equal((await read(id, 'dir/page.html', { 'if-none-match': '"other"' })).status, 200);
  assert.equal(await (await read(id, encodeURIComponent('dir/ü?.txt'))).text(), 'odd name');
  assert.equal(await (await read(id, 'empty.txt')).text(), '');
  assert.equal((await read(id, 'dot.png')).headers.get('content-type'), 'image/png');

  const whole = await read(id, 'large.bin');
  assert.equal(whole.status, 413);
  assert.match(await whole.text(), /700000 bytes.*file_too_large/);
  const ranges: [string, number, number][] = [
    ['bytes=0-9', 0, 10],
    ['bytes=262100-262200', 262_100, 262_201],
    ['bytes=699990-', 699_990, 700_000],
    ['bytes=-7', 699_993, 700_000],
    ['bytes=0-', 0, 700_000],
    ['bytes=699999-9999999', 699_999, 700_000],
  ];
  for (const [range, from, to] of ranges) {
    const part = await read(id, 'large.bin', { range });
    assert.equal(part.status, 206, range);
    assert.equal(part.headers.get('content-range'), `bytes ${from}-${to - 1}/700000`);
    assert.equal(part.headers.get('content-type'), 'application/octet-stream');
    assert.ok(large.subarray(from, to).equals(Buffer.from(await part.arrayBuffer())), range);
  }
  assert.equal((await read(id, 'large.bin', { range: 'bytes=700000-' })).status, 416);
  const head = await read(id, 'dir/page.html', {}, 'HEAD');
  assert.deepEqual([head.status, head.headers.get('content-length')], [200, '26']);
  for (const path of ['dir', 'nowhere', 'dir%2F..%2Fempty.txt']) {
    assert.equal((await read(id, path)).status, 404, path);
  }

  const { result } = await rpc('source.blob', { id, path: 'large.bin' });
  assert.deepEqual([result.size, result.offset], [700_000, 0]);
  assert.ok(large.subarray(0, 262_144).equals(Buffer.from(result.content_base64, 'base64')));
  const part = (await rpc('source.blob', { id, path: 'large.bin', range: 'bytes=5-6' })).result;
  assert.equal(part.content_base64, large.subarray(5, 7).toString('base64'));
});

test('a diff compares the serving commit with main, or any two commits', async () => {
  const { id, sha, work, push } = await withFiles('differs', {
    'index.js': worker('one'),
    'old.txt': 'line 1\nline 2\nline 3\n',
    'gone.txt': 'gone\n',
  });
  assert.deepEqual((await get(id, 'diff')).body.files, []);
  const first = (await cellar.git(work, 'rev-list', '--max-parents=0', 'HEAD')).stdout.trim();
  const all = (await get(id, `diff?from=${first}~1&to=${first}`)).body;
  assert.deepEqual([all.from, all.to], [null, first], 'before the first commit there was no file');
  assert.deepEqual([all.files.length, all.files[0].status], [1, 'added']);
  assert.equal((await get(id, 'diff?from=nowhere~1')).body.code, 'ref_not_found');
  await cellar.git(work, 'mv', 'old.txt', 'new.txt');
  await cellar.git(work, 'rm', '--quiet', 'gone.txt');
  const next = await push({ 'index.js': 'no javascript', 'ü.bin': Buffer.from([0, 1, 2]) });
  const { body } = await get(id, 'diff');
  assert.deepEqual([body.from, body.to, body.truncated], [sha, next, false]);
  assert.deepEqual(
    body.files.toSorted((a: { path: string }, b: { path: string }) => (a.path < b.path ? -1 : 1)),
    [
      { path: 'gone.txt', from_path: null, status: 'deleted', additions: 0, deletions: 1 },
      { path: 'index.js', from_path: null, status: 'modified', additions: 1, deletions: 1 },
      { path: 'new.txt', from_path: 'old.txt', status: 'renamed', additions: 0, deletions: 0 },
      { path: 'ü.bin', from_path: null, status: 'added', additions: null, deletions: null },
    ],
  );
  assert.match(body.diff, /^diff --git a\/gone\.txt b\/gone\.txt$/m);
  assert.match(body.diff, /^\+no javascript$/m);
  assert.equal((await get(id, `diff?from=${next}&to=${sha}`)).body.diff.includes('-no javascript'), true);
  assert.equal((await get(id, 'diff?from=nowhere')).body.code, 'ref_not_found');

  await push({ 'huge.txt': 'a line of text\n'.repeat(200_000) });
  const huge = (await get(id, 'diff')).body;
  assert.equal(huge.truncated, true);
  assert.ok(huge.diff.length <= 1024 * 1024);
  assert.ok(huge.files.some(({ path }: { path: string }) => path === 'huge.txt'));
});

test('a commit adds, changes, renames and deletes files, moves main and deploys', async () => {
  const { id, sha, work } = await withFiles('changed', {
    'index.js': worker('before'),
    'run.sh': 'echo\n',
    'a/old.txt': 'kept\n',
    'gone.txt': 'x',
  });
  await cellar.git(work, 'update-index', '--chmod=+x', 'run.sh');
  const answer = await commit(
    id,
    [
      { path: 'index.js', content: worker('after – ü') },
      { path: 'run.sh', content: 'echo 2\n', mode: '100755' },
      { path: 'b/new.txt', from: 'a/old.txt' },
      { path: 'gone.txt', delete: true },
      { path: 'bytes.bin', content_base64: 'AAEC/w==' },
      { path: 'gone.txt/now/a/directory.txt', content: '' },
    ],
    { parent: sha, author_name: 'Ada Lovelace' },
  );
  assert.equal(answer.status, 202, JSON.stringify(answer.body));
  const deploy = await ended(id, answer.body.deploy_id);
  assert.deepEqual([deploy.status, deploy.trigger, deploy.sha], ['live', 'commit', answer.body.sha]);
  assert.equal((await cellar.get('changed')).text, 'after – ü');

  await cellar.git(work, 'fetch', '--quiet', cellar.remote('changed'), 'main');
  const show = async (...words: string[]) => (await cellar.git(work, ...words)).stdout.trim();
  assert.equal(
    await show('log', '-1', '--format=%H %P|%an <%ae>|%cn|%B', 'FETCH_HEAD'),
    `${answer.body.sha} ${sha}|Ada Lovelace <ada@example.com>|Ada Lovelace|from the browser`,
  );
  assert.equal(
    await show('diff', '--no-renames', '--name-status', sha, 'FETCH_HEAD'),
    [
      'D\ta/old.txt',
      'A\tb/new.txt',
      'A\tbytes.bin',
      'D\tgone.txt',
      'A\tgone.txt/now/a/directory.txt',
      'M\tindex.js',
      'M\trun.sh',
    ].join('\n'),
  );
  assert.match(await show('ls-tree', 'FETCH_HEAD', 'run.sh'), /^100755/);
  assert.equal((await cellar.git(work, 'fsck', '--strict')).code, 0);
  const kept = await commit(id, [{ path: 'run.sh', content: 'echo 3\n' }]);
  assert.equal(
    (await get(id, 'tree')).body.items.find(({ path }: { path: string }) => path === 'run.sh').mode,
    '100755',
  );
  await ended(id, kept.body.deploy_id);
});

test('the API can make the first commit of an app, and a git push can follow it', async () => {
  const id = await cellar.create('born');
  const first = await commit(id, [{ path: 'index.js', content: worker('born') }], {
    author_email: 'root@localhost',
  });
  assert.equal((await ended(id, first.body.deploy_id)).status, 'live');
  assert.equal((await cellar.get('born')).text, 'born');
  const { stdout } = await cellar.git(cellar.directory, 'ls-remote', cellar.remote('born'), 'main');
  assert.equal(stdout.slice(0, 40), first.body.sha);
  const clone = join(cellar.directory, 'born');
  await cellar.git(cellar.directory, 'clone', '--quiet', cellar.remote('born'), clone);
  const { stdout: author } = await cellar.git(clone, 'log', '-1', '--format=%an %ae');
  assert.equal(author, 'root root@localhost\n');
  writeFileSync(join(clone, 'index.js'), worker('pushed'));
  await cellar.commit(clone, 'pushed');
  assert.equal((await cellar.push(clone, 'born')).code, 0);
  assert.equal((await cellar.get('born')).text, 'pushed');
});

test('a commit is refused when main has moved, and only one of concurrent commits on one parent succeeds', async () => {
  const { id, sha } = await withFiles('raced', { 'index.js': worker('one') }, 'main');
  const file = (n: number) => [{ path: `file-${n}.txt`, content: `${n}` }];
  const answers = await Promise.all([1, 2, 3].map((n) => commit(id, file(n), { parent: sha })));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [202, 409, 409]);
  for (const { status, body } of answers) {
    if (status === 409) assert.equal(body.code, 'commit_conflict');
  }
  const stale = await commit(id, file(4), { parent: sha });
  assert.match(stale.body.detail, /^Main has changed: its commit is [0-9a-f]{40} now/);
  const nothing = await cellar.create('nothing-yet');
  assert.equal((await commit(nothing, file(1), { parent: sha })).status, 409);
});

test('paths outside the repository, in .git or in conflict, and changes of missing files are refused', async () => {
  const { id, sha, work } = await withFiles('guarded', { 'dir/file.txt': 'x' });
  const bad = [
    '',
    '/etc/passwd',
    '../up',
    'a/../b',
    './a',
    'a//b',
    'a/',
    'a\0b',
    'a\nb',
    'a\\b',
    '.git/config',
    '.GIT/hooks/x',
    'a/.git',
    '.git.',
    '.git ',
    '.git::$INDEX_ALLOCATION/x',
    'GIT~1/x',
    '.g\u200cit/config',
    `${'x'.repeat(256)}`,
    'y/'.repeat(600),
  ];
  for (const path of bad) {
    const { status, body } = await commit(id, [{ path, content: 'x' }]);
    assert.deepEqual([status, body.code], [400, 'invalid_input'], JSON.stringify(path));
    assert.equal(body.errors[0].path, 'files.0.path');
  }
  const refused: [object[], number, string][] = [
    [[{ path: 'link', content: 'x', mode: '120000' }], 400, 'invalid_input'],
    [[{ path: 'a' }], 400, 'invalid_input'],
    [[{ path: 'a', content: 'x', content_base64: 'eA==' }], 400, 'invalid_input'],
    [[{ path: 'a', content_base64: '!' }], 400, 'invalid_input'],
    [
      [
        { path: 'a', content: '1' },
        { path: 'a', content: '2' },
      ],
      400,
      'invalid_input',
    ],
    [[{ path: 'dir/file.txt/below', content: 'x' }], 400, 'invalid_input'],
    [[{ path: 'dir', content: 'x' }], 400, 'invalid_input'],
    [[{ path: 'nowhere', delete: true }], 404, 'path_not_found'],
    [[{ path: 'b', from: 'nowhere' }], 404, 'path_not_found'],
    [[{ path: 'nowhere', mode: '100755' }], 404, 'path_not_found'],
    [[], 400, 'invalid_input'],
  ];
  for (const [files, status, code] of refused) {
    const answer = await commit(id, files);
    assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(files));
  }
  for (const author_email of ['nobody', 'a b@host', '<a@host', '.a@host']) {
    assert.equal(
      (await commit(id, [{ path: 'a', content: '' }], { author_email })).status,
      400,
      author_email,
    );
  }
  assert.equal((await commit('0123456789abcdef', [{ path: 'a', content: '' }])).status, 404);
  const { stdout } = await cellar.git(work, 'ls-remote', cellar.remote('guarded'), 'main');
  assert.equal(stdout.slice(0, 40), sha, 'main has not moved');
});

test('a commit of 17 MB is accepted, one over the limit is 413', async () => {
  const { id } = await withFiles('heavy', { 'index.js': worker('heavy') });
  const content_base64 = randomBytes(17_000_000).toString('base64');
  const taken = await commit(id, [{ path: 'heavy.bin', content_base64 }]);
  assert.equal(taken.status, 202, JSON.stringify(taken.body));
  assert.equal((await ended(id, taken.body.deploy_id)).status, 'live');
  const { items } = (await get(id, 'tree')).body;
  assert.equal(items.find(({ path }: { path: string }) => path === 'heavy.bin').size, 17_000_000);
  const over = await commit(id, [{ path: 'x', content: 'x'.repeat(26 * 1024 * 1024) }]);
  assert.deepEqual([over.status, over.body.code], [413, 'body_too_large']);
});
