// A webhook delivery counts as a new one only by headers that its sender has proved.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';

// Imported by their paths: they are written for workerd, whose types are missing here.
const at = (file: string) => new URL(`../../../handlers/hooks/${file}`, import.meta.url).href;
const { deliveryOf } = (await import(at('delivery.ts'))) as {
  deliveryOf: (
    headers: Headers,
    body: Uint8Array,
    identity: string,
  ) => Promise<{ digest: string; delivery: string; ref: string | null; after: string | null }>;
};
const { signatureOf } = (await import(at('signature.ts'))) as {
  signatureOf: (headers: Headers) => {
    identity: string;
    isPlausible: (secret: string) => Promise<boolean>;
    signs: (secret: string, body: Uint8Array) => Promise<boolean>;
  } | null;
};

const BODY = new TextEncoder().encode('{"ref":"refs/heads/main"}');

async function digestOf(headers: Record<string, string>): Promise<string> {
  const given = new Headers(headers);
  return (await deliveryOf(given, BODY, signatureOf(given)!.identity)).digest;
}

test('a header that is not signed does not make a delivery a new one', async () => {
  const signed = { 'x-hub-signature-256': `sha256=${'a'.repeat(64)}` };
  const again = { ...signed, 'webhook-timestamp': '1', 'x-gitlab-event-uuid': 'other' };
  assert.equal(await digestOf(again), await digestOf(signed));
});

test('deliveries with the same body differ by the signed time, and by the id that comes with a token', async () => {
  const timed = (time: string) =>
    digestOf({ 'webhook-signature': 'v1,', 'webhook-id': '1', 'webhook-timestamp': time });
  assert.notEqual(await timed('1'), await timed('2'));
  const of = (uuid: string) => digestOf({ 'x-gitlab-token': 'secret', 'x-gitlab-event-uuid': uuid });
  assert.notEqual(await of('one'), await of('other'));
  assert.equal(await of('one'), await of('one'));
});

test('the commit of a pushed branch is read; that of a tag, of a deleted branch or of no known form is not', async () => {
  const sha = 'a'.repeat(40);
  const read = async (payload: object) => {
    const body = new TextEncoder().encode(JSON.stringify(payload));
    const { ref, after } = await deliveryOf(new Headers({ 'x-github-event': 'push' }), body, '');
    return [ref, after];
  };
  const ref = 'refs/heads/main';
  assert.deepEqual(await read({ ref, after: sha }), [ref, sha]);
  assert.deepEqual(await read({ ref: 'refs/tags/v1', after: sha }), ['refs/tags/v1', null]);
  assert.deepEqual(await read({ ref, after: '0'.repeat(40) }), [null, null]);
  assert.deepEqual(await read({ ref, after: '--x' }), [ref, null]);
  assert.deepEqual(await read({ ref }), [ref, null]);
  assert.deepEqual(await read({ after: sha }), ['*', null]);
});

test('a push at Bitbucket is one of any ref, and is signed in a header that has SHA-1 elsewhere', async () => {
  const body = new TextEncoder().encode('{"push":{"changes":[]}}');
  const hmac = (algorithm: string) => createHmac(algorithm, 'a secret').update(body).digest('hex');
  const headers = (event: string) =>
    new Headers({
      'x-event-key': event,
      'x-request-uuid': 'an id',
      'x-hub-signature': `sha256=${hmac('sha256')}`,
    });
  const signature = signatureOf(headers('repo:push'))!;
  assert.deepEqual(
    [await signature.isPlausible('a secret'), await signature.signs('a secret', body)],
    [true, true],
  );
  assert.equal(await signature.signs('another', body), false);
  const weak = signatureOf(new Headers({ 'x-hub-signature': `sha1=${hmac('sha1')}` }))!;
  assert.equal(await weak.isPlausible('a secret'), false);
  for (const [event, expected] of [
    ['repo:push', '*'],
    ['repo:refs_changed', '*'],
    ['pullrequest:created', null],
    ['diagnostics:ping', null],
  ] as const) {
    const { ref, after, delivery } = await deliveryOf(headers(event), body, '');
    assert.deepEqual([ref, after, delivery], [expected, null, 'an id'], event);
  }
});
