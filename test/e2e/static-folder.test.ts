// Deploys of a built folder as a static site, by the API.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { FOLDER_FILE_BYTES } from '../../handlers/contract/source/folder-files.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';

const DEPLOY_MS = 120_000;

const cellar = new Cellar();
const rpc = rpcOf(cellar);
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

type Files = Record<string, string | Buffer>;

function hashOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex').slice(0, 32);
}

function manifestOf(files: Files) {
  return Object.fromEntries(
    Object.entries(files).map(([path, content]) => [
      path,
      { hash: hashOf(content), size: Buffer.byteLength(content) },
    ]),
  );
}

/** Uploads the missing files. @returns the upload, and the hashes of the contents that were sent */
async function send(id: string, files: Files): Promise<{ upload: string; sent: string[] }> {
  const { upload, missing, ...refused } = await rpc('deploys.begin_upload', {
    id,
    manifest: manifestOf(files),
  });
  assert.deepEqual(refused, {});
  const byHash = new Map(Object.values(files).map((content) => [hashOf(content), Buffer.from(content)]));
  for (const hashes of missing as string[][]) {
    const contents = hashes.map((hash) => [hash, byHash.get(hash)!.toString('base64')]);
    await rpc('deploys.upload_files', { id, upload, contents: Object.fromEntries(contents) });
  }
  return { upload, sent: (missing as string[][]).flat() };
}

/** Waits until a deploy has ended. */
async function ended(id: string, deploy_id: string) {
  const read = () => rpc('deploys.get', { id, deploy_id });
  await eventually(async () => (await read()).finished_at !== null, 'the deploy ends', DEPLOY_MS);
  return read();
}

async function deploy(id: string, files: Files, message?: string) {
  const { upload, sent } = await send(id, files);
  const begun = await rpc('deploys.finish_upload', { id, upload, ...(message && { message }) });
  return { ...(await ended(id, begun.id)), sent };
}

test('a folder is deployed, only new files are sent, and an earlier deploy comes back', async () => {
  const id = await cellar.create('site');
  const large = Buffer.alloc(FOLDER_FILE_BYTES, 'x');
  const files = {
    '/index.html': '<h1>one</h1>',
    '/404.html': '<h1>nothing here</h1>',
    '/a/b.txt': 'b',
    '/same.txt': 'b',
    '/empty.txt': '',
    '/large.bin': large,
    '/_headers': '/*\n  x-from: the folder\n',
  };
  const first = await deploy(id, files, 'The first site');
  assert.deepEqual(
    [first.status, first.trigger, first.message, first.author, first.error],
    ['live', 'upload', 'The first site', 'the runner token', null],
  );
  assert.equal(first.sent.length, 6, 'equal contents are sent once');
  assert.match((await rpc('deploys.log', { id, deploy_id: first.id })).log, /static site: 7 files/);
  const page = await cellar.get('site');
  assert.deepEqual([page.status, page.text], [200, '<h1>one</h1>']);
  assert.equal(page.headers.get('x-from'), 'the folder');
  const missing = await cellar.get('site', '/nothing');
  assert.deepEqual([missing.status, missing.text], [404, '<h1>nothing here</h1>']);
  assert.equal((await cellar.get('site', '/large.bin')).text.length, FOLDER_FILE_BYTES);

  const second = await deploy(id, { ...files, '/index.html': '<h1>two</h1>' });
  assert.deepEqual([second.message, second.sent], ['Upload of a folder', [hashOf('<h1>two</h1>')]]);
  assert.equal((await cellar.get('site')).text, '<h1>two</h1>');

  const { items } = await rpc('deploys.list', { id });
  assert.deepEqual(
    items.map((each: { id: string; can_roll_back: boolean }) => [each.id, each.can_roll_back]),
    [
      [second.id, true],
      [first.id, true],
    ],
  );
  const back = await rpc('deploys.rollback', { id, deploy_id: first.id });
  assert.equal((await ended(id, back.id)).status, 'live');
  assert.equal((await cellar.get('site')).text, '<h1>one</h1>');
});

test('a page that loads a script answers all paths', async () => {
  const id = await cellar.create('single-page');
  const index = '<script type="module" src="/main.js"></script>';
  const { log } = await rpc('deploys.log', {
    id,
    deploy_id: (await deploy(id, { '/index.html': index, '/main.js': '1' })).id,
  });
  assert.match(log, /single-page app: 2 files/);
  const { status, text } = await cellar.get('single-page', '/any/path', {
    headers: { 'sec-fetch-mode': 'navigate' },
  });
  assert.deepEqual([status, text], [200, index]);
});

test('what cannot be a site is refused, with the file and the fix', async () => {
  const id = await cellar.create('refused');
  const begin = async (manifest: object) =>
    (await rpc('deploys.begin_upload', { id, manifest })).detail as string;
  const file = { hash: hashOf('x'), size: 1 };
  assert.match(await begin({}), /[Mm]anifest: has no index\.html at its top; choose the built folder\./);
  assert.match(
    await begin({ '/dist/index.html': file, '/package.json': file }),
    /choose the built folder, such as dist\./,
  );
  const page = { '/index.html': file };
  for (const path of ['/.env', '/.git/config', '/a/node_modules/b.js', '/a/.npmrc'])
    assert.ok(
      (await begin({ ...page, [path]: file })).includes(`anifest: has ${path}, which is never served`),
    );
  for (const path of ['/_worker.js', '/_worker.js/index.js'])
    assert.ok(
      (await begin({ ...page, [path]: file })).includes(`anifest: has ${path}, code that a static site`),
    );
  assert.equal(await begin({ ...page, '/.well-known/security.txt': file, '/a/_worker.js': file }), undefined);
  assert.match(await begin({ ...page, '/..': file }), /has \/\.\., which is never served/);
  assert.match(
    await begin({ ...page, '//x': file }),
    /"\/\/x" must not have an empty part between two slashes, or \. or \.\./,
  );
  assert.match(await begin({ ...page, x: file }), /"x" must begin with a slash/);
  assert.match(await begin({ ...page, '/x': { ...file, size: FOLDER_FILE_BYTES + 1 } }), /anifest\./);
  const many = Object.fromEntries(Array.from({ length: 20_001 }, (_, n) => [`/${n}`, file]));
  assert.match(await begin(many), /has 20001 files, more than the 20000 that a site may have/);
});

test('an upload deploys only what was sent, in the app that it was begun for', async () => {
  const id = await cellar.create('incomplete');
  const files = { '/index.html': 'page', '/a.txt': 'a' };
  const { upload } = await rpc('deploys.begin_upload', { id, manifest: manifestOf(files) });
  const upload_files = (given: object) => rpc('deploys.upload_files', { id, upload, contents: given });
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  assert.match((await upload_files({ [hashOf('a')]: base64('b') })).detail, /have another hash/);
  assert.match((await upload_files({ [hashOf('c')]: base64('c') })).detail, /is not of this session/);
  assert.deepEqual(await upload_files({ [hashOf('page')]: base64('page') }), { complete: false });
  const early = await rpc('deploys.finish_upload', { id, upload });
  assert.deepEqual(
    [early.code, /"\/a\.txt" was declared but never/.test(early.detail)],
    ['invalid_input', true],
  );
  assert.deepEqual(await upload_files({ [hashOf('a')]: base64('a') }), { complete: true });
  const other = await cellar.create('other');
  const stolen = await rpc('deploys.finish_upload', { id: other, upload });
  assert.deepEqual([stolen.code, /belongs to another/.test(stolen.detail)], ['invalid_input', true]);
  const unknown = await rpc('deploys.finish_upload', { id, upload: 'a'.repeat(52) });
  assert.match(unknown.detail, /not known here, or has ended/);
  const { id: deploy_id } = await rpc('deploys.finish_upload', { id, upload });
  assert.equal((await ended(id, deploy_id)).status, 'live');
});
