// Removals that can be undone for ten seconds.
import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { type OperationName, operations } from '../../../handlers/contract/index.ts';
import { show, toasts } from '../../../ui/models/toasts.ts';

/** Fakes of a page's globals: its window, and a server that accepts all calls. */
const page = new EventTarget();
const sent: { name: string; keepalive: boolean }[] = [];
const realFetch = globalThis.fetch;
let api: typeof import('../../../ui/api.ts');
let removeLater: typeof import('../../../ui/removals.ts').removeLater;
before(async () => {
  Object.assign(globalThis, { window: page, addEventListener: page.addEventListener.bind(page) });
  globalThis.fetch = async (path, init) => {
    const { method } = JSON.parse(String(init!.body));
    sent.push({ name: method ?? path, keepalive: init!.keepalive === true });
    return new Response('{"result":null}');
  };
  api = await import('../../../ui/api.ts');
  ({ removeLater } = await import('../../../ui/removals.ts'));
});
after(() => {
  globalThis.fetch = realFetch;
});

const names = () => sent.splice(0).map(({ name }) => name);
/** Removes a secret with a delay on the mocked clock. @returns a function that undoes the removal */
function removeSecret(t: TestContext) {
  sent.length = 0;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  return removeLater(async () => {
    await api.api('secrets.delete', { id: 'shop', name: 'STRIPE_KEY' });
    sent.push({ name: 'done', keepalive: false });
  });
}

test('a removal runs after ten seconds, unless it is undone', (t) => {
  const undo = removeSecret(t);
  t.mock.timers.tick(9_999);
  assert.equal(undo(), true);
  t.mock.timers.tick(1);
  assert.deepEqual(names(), []);
  const late = removeLater(async () => void sent.push({ name: 'removal', keepalive: false }));
  t.mock.timers.tick(10_000);
  assert.equal(late(), false);
  assert.deepEqual(names(), ['removal']);
});

test('a pending removal ends before a write of any kind is sent, and runs once', async (t) => {
  removeSecret(t);
  await api.api('secrets.set', { id: 'shop', name: 'STRIPE_KEY', value: 'new' });
  t.mock.timers.tick(10_000);
  assert.deepEqual(names(), ['secrets.delete', 'done', 'secrets.set']);
  t.mock.timers.reset();
  removeSecret(t);
  await api.serverRoute('/api/auth/sign-out', {});
  assert.deepEqual(names(), ['secrets.delete', 'done', '/api/auth/sign-out']);
});

test('a write waits for a removal that runs already', async (t) => {
  removeSecret(t);
  t.mock.timers.tick(10_000);
  await api.api('secrets.set', { id: 'shop', name: 'STRIPE_KEY', value: 'new' });
  assert.deepEqual(names(), ['secrets.delete', 'done', 'secrets.set']);
});

test('reads and removals with an undo leave removals pending, and only the latter outlive the page', async (t) => {
  const asked = ['apps.delete', 'dispatch.delete', 'source.disconnect', 'workflows.instances.delete'];
  for (const { name, method } of operations) {
    const undo = removeSecret(t);
    await api.api(name as OperationName, {} as never);
    // `git.remote` changes nothing: it returns an address.
    const isRead = method === 'GET' || name === 'git.remote';
    const isRemoval = method === 'DELETE' && !asked.includes(name);
    assert.equal(undo(), isRead || isRemoval, name);
    assert.equal(sent.find((call) => call.name === name)!.keepalive, isRemoval, name);
    t.mock.timers.reset();
  }
});

test('pending removals are sent when the page is left, and outlive it', (t) => {
  removeSecret(t);
  removeLater(async () => void (await api.serverRoute('/api/auth/passkey/delete-passkey', { id: '1' })));
  page.dispatchEvent(new Event('pagehide'));
  assert.deepEqual(sent.splice(0), [
    { name: 'secrets.delete', keepalive: true },
    { name: '/api/auth/passkey/delete-passkey', keepalive: true },
  ]);
});

test('a toast stays while it has an undo, and at most three others stay with a new one', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  show({ text: 'removal', isDanger: false, undo: () => {} }, 10_000);
  for (const text of ['1', '2', '3', '4', '5']) show({ text, isDanger: false, undo: null }, 10_000);
  assert.deepEqual(
    toasts.value.map(({ text }) => text),
    ['removal', '2', '3', '4', '5'],
  );
  t.mock.timers.tick(10_000);
  assert.deepEqual(toasts.value, []);
});

test('an upload of a file waits for pending removals', async (t) => {
  const { upload } = await import('../../../ui/models/storage/uploads.ts');
  const { promise: uploaded, resolve } = Promise.withResolvers<void>();
  t.after(() => Reflect.deleteProperty(globalThis, 'XMLHttpRequest'));
  Object.assign(globalThis, {
    XMLHttpRequest: class {
      upload = {};
      onloadend = () => {};
      open(name: string) {
        sent.push({ name, keepalive: false });
      }
      setRequestHeader() {}
      send() {
        this.onloadend();
        resolve();
      }
    },
  });
  removeSecret(t);
  upload({ app: 'shop', bucket: 'files', prefix: '' }, [new File(['new'], 'a.txt')]);
  await uploaded;
  assert.deepEqual(names(), ['secrets.delete', 'done', 'PUT']);
});
