// Concurrent large bodies: each account has a limit, and a client that disconnects frees its place.
import assert from 'node:assert/strict';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { test } from 'node:test';
import { until } from '../../../runtime/threads/until.ts';
import { API_KEY, TestControl, TOKEN } from '../../support/handlers/control.ts';

const BYTES = 2 * 2 ** 20;
const call = (method: string, params: object) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }).padEnd(BYTES);
const CALL = call('apps.list', {});

/** Sends the first half of a large call. `status` resolves with the status of the answer. */
function open(
  url: string,
  key: string,
  text = CALL,
  path = '/rpc',
  method = 'POST',
): { sent: ClientRequest; status: Promise<number> } {
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'content-length': BYTES,
    'x-hub-signature-256': `sha256=${'0'.repeat(64)}`,
  };
  const sent = request(url + path, { method, headers, agent: false });
  const status = new Promise<number>((resolve, reject) => {
    sent.on('error', reject).on('response', (response: IncomingMessage) => {
      response.resume();
      resolve(response.statusCode!);
    });
  });
  status.catch(() => {});
  sent.write(text.slice(0, BYTES / 2));
  return { sent, status };
}

/** Sends a whole large call. */
function whole(url: string, key: string): Promise<number> {
  const { sent, status } = open(url, key);
  sent.end(CALL.slice(BYTES / 2));
  return status;
}

/**
 * Opens calls that do not end, until a whole call is refused. A whole call may overtake an open one: then the whole
 * call gets the place, and the open one is refused.
 */
async function fill(openNext: () => ReturnType<typeof open>): Promise<ReturnType<typeof open>[]> {
  const slow = [];
  while (slow.length < 20) {
    slow.push(openNext());
    const { sent, status } = openNext();
    sent.end(CALL.slice(BYTES / 2));
    if ((await status) === 429) return slow;
  }
  throw new Error('no call is refused');
}

test('an account has at most two large bodies at once, and clients that disconnect free their places', async (t) => {
  const control = await TestControl.start();
  t.after(() => control.stop());
  assert.equal(await whole(control.url, API_KEY), 200);
  const mine = () => open(control.url, API_KEY);
  const slow = await fill(mine);
  assert.equal(await whole(control.url, TOKEN), 200, 'another caller is answered');
  const finished = slow.shift()!;
  finished.sent.end(CALL.slice(BYTES / 2));
  assert.equal(await finished.status, 200);
  assert.equal(await whole(control.url, API_KEY), 200);
  slow.push(...(await fill(mine)));
  for (const { sent } of slow) sent.destroy();
  const free = async () => (await whole(control.url, API_KEY)) === 200;
  assert.ok(await until(free, { everyMs: 20, timeoutMs: 30_000 }), 'the places of lost clients are free');
});

test('forged deliveries of webhooks keep no place of the account and few of all', async (t) => {
  const control = await TestControl.start();
  t.after(() => control.stop());
  const forge = (id: string) => open(control.url, '', CALL, `/v1/hooks/${id}`);
  for (const slug of ['one', 'two']) {
    const owner = await control.call('accounts.create', { name: slug, email: `${slug}@example.com` });
    const { id } = await control.call('apps.create', { slug, owner: owner.id });
    const { key } = await control.call('keys.create', { account: owner.id });
    await fill(() => forge(id));
    assert.equal(await whole(control.url, key), 200);
  }
  const { id } = await control.call('apps.create', { slug: 'three' });
  const { sent, status } = forge(id);
  sent.end(CALL.slice(BYTES / 2));
  assert.equal(await status, 429, 'a fifth one is refused');
});

test('uploads for SQL imports that nobody started take no place', async (t) => {
  const control = await TestControl.start();
  t.after(() => control.stop());
  for (let n = 0; n < 20; n++) {
    const { sent } = open(control.url, '', CALL, `/client/v4/files/account${n}-unknown`, 'PUT');
    t.after(() => sent.destroy());
    assert.equal(await whole(control.url, API_KEY), 200, `after ${n + 1} uploads`);
  }
});

test('a client that disconnects while its call runs frees its place when the call ends', async (t) => {
  const control = await TestControl.start();
  t.after(() => control.stop());
  const { promise, resolve } = Promise.withResolvers<void>();
  control.host.held = promise;
  for (const slug of ['one', 'two']) {
    const text = call('apps.create', { slug });
    const { sent } = open(control.url, API_KEY, text);
    sent.end(text.slice(BYTES / 2));
    const isAsked = async () =>
      control.host.sent.some(({ method, body }) => method === 'PUT' && body.includes(slug));
    assert.ok(await until(isAsked, { everyMs: 10, timeoutMs: 30_000 }), 'the host is asked');
    sent.destroy();
  }
  resolve();
  const free = async () => (await whole(control.url, API_KEY)) === 200;
  assert.ok(await until(free, { everyMs: 20, timeoutMs: 10_000 }), 'the places are free');
});
