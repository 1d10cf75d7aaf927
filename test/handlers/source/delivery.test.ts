// What deliveries of webhooks say.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deliveryOf } from '../../../handlers/hooks/delivery.ts';

const read = (headers: Record<string, string>, body: string) =>
  deliveryOf(new Headers(headers), new TextEncoder().encode(body));

test('a push names its ref; what is deleted, or is no push, does not', async () => {
  const after = 'a'.repeat(40);
  const cases: [Record<string, string>, object, string | null][] = [
    [{ 'x-github-event': 'push' }, { ref: 'refs/heads/main', after }, 'refs/heads/main'],
    [{ 'x-gitlab-event': 'Tag Push Hook' }, { ref: 'refs/tags/v1', after }, 'refs/tags/v1'],
    [{ 'x-gitea-event': 'push' }, { ref: 'refs/heads/main', after: '0'.repeat(40) }, null],
    [{ 'x-github-event': 'issues' }, { ref: 'refs/heads/main', after }, null],
    [{ 'x-forgejo-event': 'push' }, { ref: 7, after }, null],
    [{ 'x-forgejo-event': 'push' }, { ref: 'main', after }, null],
    [{}, {}, '*'],
  ];
  for (const [headers, body, ref] of cases)
    assert.equal((await read(headers, JSON.stringify(body))).ref, ref);
});

test('the digest tells bodies apart, whatever the unsigned headers say', async () => {
  const one = await read({ 'x-github-event': 'push', 'x-github-delivery': '1' }, '{"a":1}');
  const same = await read({ 'x-github-event': 'issues', 'x-github-delivery': '2' }, '{"a":1}');
  const other = await read({ 'x-github-event': 'push', 'x-github-delivery': '1' }, '{"a":2}');
  assert.equal(one.digest, same.digest);
  assert.notEqual(one.digest, other.digest);
  const long = await read(
    { 'x-github-event': 'x'.repeat(1000), 'x-github-delivery': 'y'.repeat(1000) },
    '{}',
  );
  assert.ok(long.event.length <= 100 && long.delivery.length <= 100);
});

test('a body that would keep the parser busy is refused', async () => {
  for (const body of ['[', '"x"', '{"a":'.repeat(1000)])
    await assert.rejects(read({ 'x-github-event': 'push' }, body), { code: 'malformed_json' });
});
