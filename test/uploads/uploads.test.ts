// Limits on uploads by accounts and strangers: how much is stored, and how much is read.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MAX_ENTRIES } from '../../bundler/limits.ts';
import { type UnpackOptions, unpackUpload } from '../../bundler/upload/unpack.ts';
import type { UploadedVersion } from '../../handlers/contract/host/host-releases.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { Refusal } from '../../runtime/refusal.ts';
import { type Uploader, Uploads, type UploadsOptions } from '../../runtime/uploads/uploads.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const WORKER = "export default { fetch: () => new Response('fine') };";
const MANIFEST = JSON.stringify({ manifest: { '/a.txt': { hash: 'a'.repeat(32), size: 1 } } });

/** Starts a server of uploads. `send` posts a body, whose upload the server passes to `work`. */
async function open(t: TestContext) {
  const paths = layout(temporaryDirectory(t));
  const seconds: { versionId: string }[] = [];
  const apps = { seconds: () => seconds };
  // An upload for a new app calls none of the other options.
  const uploads = new Uploads({ paths, apps, assetsMb: 1 } as unknown as UploadsOptions);
  type Work = (upload: Parameters<Uploads['keepAssets']>[0]) => Promise<unknown>;
  const works: Work[] = [];
  const server = createServer((request, response) => {
    // The host's own server also drains a request after its answer.
    response.once('finish', () => request.resume());
    works.shift()!({ request, response }).then(
      (answer) => response.end(JSON.stringify(answer)),
      (error) => response.writeHead(error instanceof Refusal ? error.status : 500).end(error.message),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  t.after(() => server.closeAllConnections());
  const send = async (
    body: NonNullable<RequestInit['body']>,
    work: Work,
    signal = AbortSignal.timeout(180_000),
  ) => {
    works.push(work);
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, {
      method: 'POST',
      body,
      ...(body instanceof ReadableStream && { duplex: 'half' }),
      signal,
    } as RequestInit);
    const text = await response.text();
    return { status: response.status, text };
  };
  return { uploads, seconds, folder: paths.uploads, send };
}

const from = (owner: string): Uploader => ({ owner, appId: null });

function form(metadata: object, modules: Record<string, File>): FormData {
  const form = new FormData();
  form.set('metadata', JSON.stringify({ main_module: 'index.js', ...metadata }));
  for (const [name, file] of Object.entries(modules)) form.set(name, file);
  return form;
}

const module = (name: string, type = 'application/javascript+module') => new File([WORKER], name, { type });

test('texts of an upload are cut, and its metadata is bounded', async (t) => {
  const { uploads, send } = await open(t);
  const take = (metadata: object) =>
    send(form(metadata, { 'index.js': module('index.js') }), (upload) =>
      uploads.take(upload, from('one/app'), 'me'),
    );
  const annotations = { 'workers/message': 'm'.repeat(100_000), 'workers/tag': 't'.repeat(100_000) };
  const taken = await take({ annotations });
  const { version } = JSON.parse(taken.text) as { version: UploadedVersion };
  assert.deepEqual([version.message.length, version.tag.length], [300, 300]);
  const large = await take({ annotations: { 'workers/message': 'm'.repeat(5 * 2 ** 20) } });
  assert.equal(large.status, 400, large.text);
  assert.match(large.text, /metadata has more than 4 MiB/);
});

test('modules with impossible names or types are errors of the upload', async (t) => {
  const { uploads, send } = await open(t);
  const fault = async (modules: Record<string, File>) => {
    const { status, text } = await send(form({}, { 'index.js': module('index.js'), ...modules }), (upload) =>
      uploads.take(upload, from('one/app'), 'me'),
    );
    assert.equal(status, 400, text);
    return text;
  };
  assert.match(await fault({ 'index.js/b.js': module('b.js') }), /"index.js\/b.js" cannot be kept as a file/);
  const long = `${'d'.repeat(300)}/b.js`;
  assert.match(await fault({ [long]: module('b.js') }), /cannot be kept as a file: ENAMETOOLONG/);
  assert.match(await fault({ 'b.js': module('b.js', 'constructor') }), /not a supported module type/);
  for (const name of ['cellar-entry.js', 'a/cellar-d1.mjs', 'cellar-internal:dispatch'])
    assert.match(await fault({ [name]: module(name) }), /are Cellar's own/);
});

test('the files of a cache and the other parts of an upload are counted apart', async (t) => {
  const body = join(temporaryDirectory(t), 'body');
  /** Uploads so many files of a cache and so many modules, without metadata. @returns the error message */
  const fault = async (cached: number, modules: number) => {
    const part = (name: string) =>
      `--b\r\nContent-Disposition: form-data; name="${name}"; filename="f"\r\n\r\n\r\n`;
    const parts = (folder: string, count: number) =>
      Array.from({ length: count }, (_, at) => part(`${folder}/${at}`)).join('');
    writeFileSync(body, `${parts('next-cache', cached)}${parts('modules', modules)}--b--\r\n`);
    const options = { body, contentType: 'multipart/form-data; boundary=b' } as UnpackOptions;
    return unpackUpload(options).then(
      () => assert.fail('it is taken'),
      (error: Error) => error.message,
    );
  };
  assert.match(await fault(MAX_ENTRIES, 1), /the part metadata is missing/);
  assert.match(
    await fault(MAX_ENTRIES + 1, 1),
    /more than 100000 files in next-cache\/: make fewer pages at build time/,
  );
  assert.match(await fault(1, MAX_ENTRIES + 1), /more than 100000 parts besides those in next-cache\//);
});

test('an app name may begin with cellar-: Wrangler names the module of the first secret after the app', async (t) => {
  const { uploads, send } = await open(t);
  const body = form({ main_module: 'cellar-shop' }, { 'cellar-shop': module('cellar-shop') });
  const { status, text } = await send(body, (upload) => uploads.take(upload, from('one/cellar-shop'), 'me'));
  assert.equal(status, 200, text);
});

test('assets for an unknown session are refused before their body is read', async (t) => {
  const { uploads, folder, send } = await open(t);
  let sent = 0;
  // The body never ends, so the answer must not wait for its end.
  const body = new ReadableStream({
    pull(controller) {
      if (sent++ < 3) controller.enqueue(new Uint8Array(1024));
      else return new Promise(() => {});
      return undefined;
    },
  });
  const { status, text } = await send(body, (upload) => uploads.keepAssets(upload, 'a'.repeat(52)));
  assert.equal(status, 400);
  assert.match(text, /not known here/);
  assert.deepEqual(readdirSync(folder).includes('incoming'), false);
});

test('the modification time of an uploaded asset only depends on its bytes', async (t) => {
  const { uploads, folder, send } = await open(t);
  const time = async (content: string) => {
    const hash = createHash('sha256').update(content).digest('hex').slice(0, 32);
    const manifest = JSON.stringify({ manifest: { '/a.txt': { hash, size: content.length } } });
    const started = await send(manifest, (upload) => uploads.startAssets(upload, from('one/app'), 'sha256'));
    const { session } = JSON.parse(started.text) as { session: string };
    const body = JSON.stringify({ [hash]: Buffer.from(content).toString('base64') });
    const { text } = await send(body, (upload) => uploads.keepAssets(upload, session));
    assert.equal(text, 'true');
    return statSync(join(folder, 'assets', session, 'files', hash)).mtimeMs;
  };
  const first = await time('a');
  assert.equal(await time('a'), first);
  assert.notEqual(await time('b'), first);
  assert.equal(first % 1000, 0);
});

/** A body that never ends. */
const stuck = () => new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(8)) });

test('one account cannot take all upload places', async (t) => {
  const { uploads, send } = await open(t);
  const begun = Promise.withResolvers<void>();
  let count = 0;
  for (let at = 0; at < 6; at++)
    send(stuck(), (upload) => {
      const taken = uploads.take(upload, from('greedy/app'), 'me');
      if (++count === 6) begun.resolve();
      return taken;
    }).catch(() => {});
  await begun.promise;
  const take = (owner: string) =>
    send(form({}, { 'index.js': module('index.js') }), (upload) => uploads.take(upload, from(owner), 'me'));
  const refused = await take('greedy/other');
  assert.equal(refused.status, 429);
  assert.match(refused.text, /an account may send at most 6 uploads at once/);
  assert.equal((await take('modest/app')).status, 200);
});

test('accounts whose slow uploads take all places lose one to an account with fewer', async (t) => {
  const { uploads, folder, send } = await open(t);
  const incoming = join(folder, 'incoming');
  const places = () => (existsSync(incoming) ? readdirSync(incoming).length : 0);
  const ended: { status: number; text: string }[] = [];
  for (const owner of ['a', 'b', 'c'])
    for (let at = 0; at < (owner === 'a' ? 6 : 5); at++)
      send(stuck(), (upload) => uploads.take(upload, from(`${owner}/app`), 'me')).then(
        (answer) => ended.push(answer),
        () => {},
      );
  await eventually(() => places() === 16, 'all places are taken');
  const take = (body: NonNullable<RequestInit['body']>, owner: string) =>
    send(body, (upload) => uploads.take(upload, from(owner), 'me'));
  const own = () => form({}, { 'index.js': module('index.js') });
  const taken = await take(own(), 'modest/app');
  assert.equal(taken.status, 200, taken.text);
  await eventually(() => ended.length === 1, 'one slow upload has ended');
  assert.equal(ended[0]!.status, 429);
  assert.match(ended[0]!.text, /at most 16 uploads may come at once, and another account has fewer/);
  // The upload of `modest` has ended. With another slow upload all places are taken again, five each by a, b and c.
  send(stuck(), (upload) => uploads.take(upload, from('d/app'), 'me')).catch(() => {});
  await eventually(() => places() === 16, 'all places are taken again');
  const refused = await take(own(), 'b/app');
  assert.deepEqual([refused.status, ended.length], [429, 1], refused.text);
});

test('uploads whose client disconnects are aborted, even while they wait to be unpacked', async (t) => {
  const { uploads, folder, send } = await open(t);
  const client = new AbortController();
  const modules = Array.from({ length: 1000 }, (_, at) => [`${at}.js`, module(`${at}.js`)] as const);
  const body = () => form({}, { 'index.js': module('index.js'), ...Object.fromEntries(modules) });
  const taken: Promise<unknown>[] = [];
  const take = (body: NonNullable<RequestInit['body']>) =>
    send(
      body,
      (upload) => {
        const work = uploads.take(upload, from('one/app'), 'me');
        taken.push(work);
        return work;
      },
      client.signal,
    ).catch(() => {});
  const sent = [stuck(), ...Array.from({ length: 4 }, body)].map(take);
  await Promise.race(sent);
  client.abort();
  await Promise.allSettled(taken);
  assert.equal(readdirSync(join(folder, 'incoming')).length, 0);
  const kept = readdirSync(join(folder, 'versions')).length;
  assert.ok(kept >= 1 && kept < 4, `${kept} versions`);
});

test("many uploads of one account do not delay the unpacking of another's", async (t) => {
  const { uploads, send } = await open(t);
  const ended: string[] = [];
  const take = async (owner: string, modules: Record<string, File>) => {
    const { status, text } = await send(form({}, modules), (upload) =>
      uploads.take(upload, from(`${owner}/app`), 'me'),
    );
    assert.equal(status, 200, text);
    ended.push(owner);
  };
  const many = Object.fromEntries(
    Array.from({ length: 1000 }, (_, at) => [`${at}.js`, module(`${at}.js`)] as const),
  );
  const own = { 'index.js': module('index.js') };
  const greedy = Array.from({ length: 6 }, () => take('greedy', { ...own, ...many }));
  await Promise.race(greedy);
  await take('modest', own);
  assert.ok(ended.length < 6, `${ended}`);
  await Promise.all(greedy);
});

test('sessions, and versions of new apps, are bounded for each account; used versions stay', async (t) => {
  const { uploads, seconds, folder, send } = await open(t);
  const take = async (owner: string) => {
    const { text } = await send(form({}, { 'index.js': module('index.js') }), (upload) =>
      uploads.take(upload, from(owner), 'me'),
    );
    return (JSON.parse(text) as { version: UploadedVersion }).version;
  };
  const first = await take('many/a0');
  const end = Promise.withResolvers<void>();
  const deploying = uploads.deploying('0'.repeat(16), first.id, 'many/a0', () => end.promise);
  const second = await take('many/split');
  seconds.push({ versionId: second.id });
  const other = await take('few/app');
  for (let at = 1; at <= 13; at++) await take(`many/a${at}`);
  for (let at = 0; at < 18; at++)
    await send(MANIFEST, (upload) => uploads.startAssets(upload, from(`many/a${at}`)));
  // Each upload removes surplus versions and sessions in the background.
  await eventually(() => {
    const versions = readdirSync(join(folder, 'versions'));
    const stay = [first, second, other].every(({ id }) => versions.includes(id));
    return stay && versions.length === 13 && readdirSync(join(folder, 'assets')).length <= 17;
  }, 'older versions and sessions have gone');
  end.resolve();
  await deploying;
});
