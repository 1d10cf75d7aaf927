// What the API says of an app's requests, through the real host.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';

const WORKER = `export default {
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/boom') return new Response('boom', { status: 500 });
    if (pathname === '/missing') return new Response('no', { status: 404 });
    return new Response('here');
  },
};
`;

interface Sums {
  requests: number;
  errors: number;
  client_errors: number;
  wakes: number;
}

/** The steps of an app's last hour, added up. */
async function sums(cellar: Cellar, id: string, hours = 1): Promise<Sums> {
  const { status, body } = await cellar.call('GET', `/v1/apps/${id}/metrics?hours=${hours}`);
  assert.equal(status, 200, JSON.stringify(body));
  const all: Sums = { requests: 0, errors: 0, client_errors: 0, wakes: 0 };
  for (const item of body.items as Sums[])
    for (const name of Object.keys(all) as (keyof Sums)[]) all[name] += item[name];
  return all;
}

test('every request is counted once, through a restart of the host', async () => {
  await using cellar = await new Cellar().start();
  const id = await cellar.deploy('counted', 'hello', { 'index.js': WORKER });
  for (const path of ['/', '/boom', '/missing', '/']) await cellar.get('counted', path);
  const before = await sums(cellar, id);
  assert.deepEqual([before.requests, before.errors, before.client_errors], [4, 1, 1]);
  await cellar.get('counted', '/');
  await cellar.stop();
  await cellar.start();
  await cellar.get('counted', '/');
  assert.equal((await sums(cellar, id)).requests, 6);
  assert.equal((await sums(cellar, id, 720)).requests, 6);
  const { body } = await cellar.call('GET', `/v1/apps/${id}/metrics/version`);
  assert.equal(body.schema, 1);
  assert.ok(Date.parse(body.watermark) <= Date.now());
});
