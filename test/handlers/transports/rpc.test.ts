// JSON-RPC 2.0: the examples of jsonrpc.org with this API's methods, and our additions.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { FOLDER_BODY_BYTES, RPC_ENVELOPE_BYTES } from '../../../handlers/contract/sizes.ts';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
let id: string;
before(async () => {
  control = await TestControl.start();
  ({ id } = await control.create('called'));
});
after(() => control.stop());

const call = (method: unknown, rest: object = {}) => ({ jsonrpc: '2.0', method, ...rest });
/** Removes `data` from an error, because the standard does not define its content. */
const plain = (answer: { error?: { data?: unknown } }) => {
  if (answer.error) {
    const { data, ...error } = answer.error;
    return { ...answer, error };
  }
  return answer;
};

test('rpc call with named parameters, in either order of the members', async () => {
  const app = (await control.api('GET', `/v1/apps/${id}`)).body;
  const first = await control.rpc(call('apps.get', { params: { id }, id: 3 }));
  assert.deepEqual([first.status, first.body], [200, { jsonrpc: '2.0', id: 3, result: app }]);
  const second = await control.rpc({ id: 'four', params: { id }, method: 'apps.get', jsonrpc: '2.0' });
  assert.deepEqual(second.body, { jsonrpc: '2.0', id: 'four', result: app });
});

test('a notification is executed and answered with nothing', async () => {
  const { status, text } = await control.rpc(call('apps.create', { params: { slug: 'notified' } }));
  assert.deepEqual([status, text], [204, '']);
  assert.equal((await control.call('apps.get_by_slug', { slug: 'notified' })).slug, 'notified');
  assert.equal((await control.rpc(call('foobar'))).status, 204);
});

test('rpc call of non-existent method', async () => {
  const { body } = await control.rpc(call('foobar', { id: '1' }));
  assert.deepEqual(plain(body), {
    jsonrpc: '2.0',
    error: { code: -32601, message: 'Method not found' },
    id: '1',
  });
});

test('rpc call with invalid JSON', async () => {
  const { status, body } = await control.rpc('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]');
  assert.equal(status, 200);
  assert.deepEqual(plain(body), {
    jsonrpc: '2.0',
    error: { code: -32700, message: 'Parse error' },
    id: null,
  });
  assert.equal(body.error.data.code, 'malformed_json');
});

const invalidRequest = { jsonrpc: '2.0', error: { code: -32600, message: 'Invalid Request' }, id: null };

test('rpc call with invalid Request object', async () => {
  assert.deepEqual(
    plain((await control.rpc({ jsonrpc: '2.0', method: 1, params: 'bar' })).body),
    invalidRequest,
  );
  assert.deepEqual(plain((await control.rpc('')).body), {
    ...invalidRequest,
    error: { code: -32700, message: 'Parse error' },
  });
  for (const message of ['1', '"text"', 'null', '{"method": "apps.list", "id": 1}']) {
    assert.equal((await control.rpc(message)).body.error.code, -32600, message);
  }
  assert.equal((await control.rpc(call('apps.list', { id: {} }))).body.id, null);
});

test('rpc call batch, invalid JSON', async () => {
  const text =
    '[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method"]';
  const { body } = await control.rpc(text);
  assert.deepEqual(plain(body), {
    jsonrpc: '2.0',
    error: { code: -32700, message: 'Parse error' },
    id: null,
  });
});

test('rpc call with an empty array answers one error, not a batch', async () => {
  assert.deepEqual(plain((await control.rpc([])).body), invalidRequest);
});

test('rpc call with an invalid batch answers an error for each part', async () => {
  assert.deepEqual((await control.rpc([1])).body.map(plain), [invalidRequest]);
  assert.deepEqual((await control.rpc([1, 2, 3])).body.map(plain), [
    invalidRequest,
    invalidRequest,
    invalidRequest,
  ]);
});

test('rpc call batch: answered in order, notifications left out, each part on its own', async () => {
  const { body } = await control.rpc([
    call('apps.get_by_slug', { params: { slug: 'called' }, id: '1' }),
    call('apps.create', { params: { slug: 'batched' } }),
    call('deploys.list', { params: { id }, id: '2' }),
    { foo: 'boo' },
    call('foo.get', { params: { name: 'myself' }, id: '5' }),
    call('apps.list', { params: { limit: 1 }, id: '9' }),
  ]);
  assert.deepEqual(
    body.map((answer: { id: unknown; error?: { code: number } }) => [answer.id, answer.error?.code]),
    [
      ['1', undefined],
      ['2', undefined],
      [null, -32600],
      ['5', -32601],
      ['9', undefined],
    ],
  );
});

test('rpc call batch of notifications alone is answered with nothing', async () => {
  const { status, text } = await control.rpc([call('apps.list'), call('notify_sum', { params: [1] })]);
  assert.deepEqual([status, text], [204, '']);
});

test('a batch may have 100 calls, not 101', async () => {
  const calls = Array.from({ length: 100 }, (_, n) => call('apps.get', { params: { id }, id: n }));
  const { body } = await control.rpc(calls);
  assert.deepEqual(
    body.map((answer: { id: number }) => answer.id),
    calls.map((_, n) => n),
  );
  assert.deepEqual(
    plain((await control.rpc([...calls, call('apps.list', { id: 100 })])).body),
    invalidRequest,
  );
});

test('wrong params are -32602 with the same problem that REST answers', async () => {
  const rest = await control.api('POST', '/v1/apps', { slug: 'git', color: 'red' });
  const { body } = await control.rpc(call('apps.create', { params: { slug: 'git', color: 'red' }, id: 1 }));
  assert.deepEqual([body.error.code, body.error.message], [-32602, 'Invalid params']);
  assert.deepEqual(body.error.data, rest.body);
  const byPosition = await control.rpc(call('apps.get', { params: [id], id: 1 }));
  assert.equal(byPosition.body.error.code, -32602);
});

test('a refusal has the problem that REST answers, and a deletion answers null', async () => {
  const { body } = await control.rpc(call('apps.get', { params: { id: 'nope' }, id: 1 }));
  assert.equal(body.error.code, -32000);
  assert.deepEqual(body.error.data, (await control.api('GET', '/v1/apps/nope')).body);
  const { id: doomed } = await control.create('doomed');
  const deleted = await control.rpc(call('apps.delete', { params: { id: doomed }, id: 2 }));
  assert.deepEqual(deleted.body, { jsonrpc: '2.0', id: 2, result: null });
});

test('size and type of the body are refused as in REST', async () => {
  assert.equal((await control.rpc('x'.repeat(FOLDER_BODY_BYTES + RPC_ENVELOPE_BYTES + 1))).status, 413);
  assert.equal((await control.rpc('{}', { 'content-type': 'text/plain' })).status, 415);
  assert.equal((await control.rpc('['.repeat(1000))).body.error.code, -32700);
});
