// The page over plain HTTP, where browsers leave out the APIs of secure pages.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { upload, uploads } from '../../../ui/models/storage/uploads.ts';
import { copyText } from '../../../ui/parts/code/copy-text.ts';

test('a text is copied from the dialog on top, since the page behind it is inert', async (t) => {
  const copied: [string, string][] = [];
  const parent = (name: string) => ({ append: (area: { value: string }) => copied.push([name, area.value]) });
  const page = {
    dialogs: [] as object[],
    works: true,
    body: parent('page'),
    querySelectorAll: () => page.dialogs,
    createElement: () => ({ select() {}, remove() {} }),
    execCommand: () => page.works,
  };
  Object.assign(globalThis, { document: page });
  t.after(() => Reflect.deleteProperty(globalThis, 'document'));
  await copyText('one');
  page.dialogs = [parent('behind'), parent('top')];
  await copyText('two');
  assert.deepEqual(copied, [
    ['page', 'one'],
    ['top', 'two'],
  ]);
  page.works = false;
  await assert.rejects(copyText('three'), /Select the text/);
});

test('a large file is uploaded without crypto.randomUUID', async (t) => {
  t.mock.method(crypto, 'randomUUID', () => assert.fail('is not a function'));
  const keys = new EventTarget();
  const asked = once(keys, 'key');
  t.mock.method(globalThis, 'fetch', async (_: string, { headers }: { headers: Record<string, string> }) => {
    keys.dispatchEvent(new CustomEvent('key', { detail: headers['idempotency-key'] }));
    return Response.json({ error: { data: { status: 404, code: 'app_not_found', detail: 'gone' } } });
  });
  upload({ app: 'shop', bucket: 'files', prefix: '' }, [new File([new Uint8Array(9 << 20)], 'large')]);
  const ended = new Promise<string | null>((resolve) => {
    t.after(uploads.subscribe(([only]) => only?.state === 'failed' && resolve(only.words)));
  });
  assert.equal(await ended, 'gone');
  const [{ detail }] = (await asked) as [CustomEvent<string>];
  assert.match(detail, /^\d+(-\d+){3}$/);
});
