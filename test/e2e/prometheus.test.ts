// `GET /metrics` as Prometheus reads it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fetch } from 'undici';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/e2e/processes.ts';

const hasPromtool = spawnSync('promtool', ['--version']).error === undefined;

test('every request of an app is counted, for the runner token alone', async (t) => {
  await using cellar = await new Cellar().start();
  await cellar.deploy('counted', 'hello', {
    'index.js': `export default { fetch: (request) => new Response('', { status: Number(request.url.split('/').at(-1)) }) }`,
  });
  for (const status of [200, 200, 204, 404, 500]) await cellar.get('counted', `/${status}`);
  const expected = [
    'cellar_app_requests_total{app="counted",status="2xx"} 3',
    'cellar_app_requests_total{app="counted",status="4xx"} 1',
    'cellar_app_requests_total{app="counted",status="5xx"} 1',
    'cellar_app_request_duration_seconds_count{app="counted"} 5',
    'cellar_app_request_duration_seconds_bucket{app="counted",le="+Inf"} 5',
    'cellar_control_plane_up 1',
    'cellar_cells 1',
    'cellar_apps{status="running"} 1',
  ];
  let body = '';
  const missing = async () => {
    body = String((await cellar.call('GET', '/metrics')).body);
    return expected.filter((line) => !body.split('\n').includes(line));
  };
  await eventually(async () => (await missing()).length === 0, 'each request is counted').catch(() => {});
  assert.deepEqual(await missing(), [], body);

  const asAccount = await fetch(`${cellar.api}/metrics`, {
    headers: { authorization: `Bearer ${cellar.key}` },
  });
  assert.equal(asAccount.status, 403);
  assert.equal((await fetch(`${cellar.api}/metrics`)).status, 401);

  if (!hasPromtool) return t.diagnostic('promtool is not installed: apt-get install prometheus');
  const checked = spawnSync('promtool', ['check', 'metrics'], { input: body, encoding: 'utf8' });
  assert.deepEqual([checked.status, checked.stderr], [0, '']);
});
