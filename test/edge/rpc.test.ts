// JSON-RPC calls that the gateway itself refuses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gateway } from '../../runtime/edge/gateway.ts';
import { call } from '../support/edge/peers.ts';

test('a call of JSON-RPC is refused by JSON-RPC, and other requests are not', async (t) => {
  const detail = 'The API is not there.';
  const gateway = new Gateway({
    resolve: () => ({
      kind: 'proxy',
      backend: {
        site: 'control',
        admit: () => ({ kind: 'refuse', status: 503, code: 'host_unavailable', detail, retryAfterS: 1 }),
      },
    }),
    isRpc: ({ path }) => path === '/rpc',
    holdTimeoutMs: 1_000,
  });
  t.after(() => gateway.close(0));
  const port = await gateway.listen(0, '127.0.0.1');
  const problem = {
    type: 'about:blank',
    title: 'Service Unavailable',
    status: 503,
    detail,
    code: 'host_unavailable',
  };
  const ask = async (path: string) => {
    const { status, headers, body } = await call(port, path, { method: 'POST', body: '{}' });
    assert.deepEqual([status, headers['retry-after']], [503, '1']);
    return [headers['content-type'], JSON.parse(body)];
  };
  assert.deepEqual(await ask('/rpc'), [
    'application/json',
    { jsonrpc: '2.0', id: null, error: { code: -32000, message: detail, data: problem } },
  ]);
  assert.deepEqual(await ask('/v1/apps'), ['application/problem+json', problem]);
});
