// A webhook delivery counts as a new one only by headers that its sender has proved.
import assert from 'node:assert/strict';
import { test } from 'node:test';

// Imported by their paths: they are written for workerd, whose types are missing here.
const at = (file: string) => new URL(`../../../handlers/hooks/${file}`, import.meta.url).href;
const { deliveryOf } = (await import(at('delivery.ts'))) as {
  deliveryOf: (
    headers: Headers,
    body: Uint8Array,
    identity: string,
  ) => Promise<{ digest: string; ref: string | null; after: string | null }>;
};
const { signatureOf } = (await import(at('signature.ts'))) as {
  signatureOf: (headers: Headers) => { identity: string } | null;
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
