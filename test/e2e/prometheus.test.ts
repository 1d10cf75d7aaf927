// `GET /metrics` as Prometheus reads it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fetch } from 'undici';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';

const hasPromtool = spawnSync('promtool', ['--version']).error === undefined;
const hasPrometheus = spawnSync('prometheus', ['--version']).error === undefined;

/** Starts a real Prometheus that scrapes a Cellar every second. */
async function startPrometheus({ api, token, directory }: Cellar) {
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s' },
    scrape_configs: [
      {
        job_name: 'cellar',
        authorization: { type: 'Bearer', credentials: token },
        static_configs: [{ targets: [new URL(api).host] }],
      },
    ],
  };
  // JSON is valid YAML.
  const file = join(directory, 'prometheus.json');
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  const child = spawn(
    'prometheus',
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(directory, 'prometheus')}`,
      '--web.listen-address=127.0.0.1:0',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'], cwd: directory },
  );
  const exited = once(child, 'exit');
  const address = await new Promise<string>((resolve, reject) => {
    let printed = '';
    const lines = createInterface({ input: child.stderr });
    lines.on('line', (line) => {
      printed += `${line}\n`;
      const found = /msg="Listening on" address=(\S+)/.exec(line);
      if (found) resolve(found[1]!);
    });
    lines.on('close', () => reject(new Error(`Prometheus ended:\n${printed}`)));
  });
  return {
    /** Returns the value of a query as text; undefined while there is none. */
    async ask(query: string): Promise<string | undefined> {
      const answer = await fetch(`http://${address}/api/v1/query?query=${encodeURIComponent(query)}`);
      // biome-ignore lint/suspicious/noExplicitAny: Prometheus' own format
      const { data } = (await answer.json().catch(() => ({}))) as any;
      return data?.result[0]?.value[1];
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

test('the metrics count every request of an app, and need the runner token', async (t) => {
  await using cellar = await new Cellar().start();
  await cellar.deploy('counted', 'hello', {
    'index.js': `export default { fetch: (request) => new Response('', { status: Number(request.url.split('/').at(-1)) }) }`,
  });
  await cellar.deploy('quiet', 'hello');
  for (const status of [200, 200, 204, 404, 500]) await cellar.get('counted', `/${status}`);
  const expected = [
    'cellar_app_requests_total{app="counted",status="2xx"} 3',
    'cellar_app_requests_total{app="counted",status="4xx"} 1',
    'cellar_app_requests_total{app="counted",status="5xx"} 1',
    'cellar_app_request_duration_seconds_count{app="counted"} 5',
    'cellar_app_request_duration_seconds_bucket{app="counted",le="+Inf"} 5',
    'cellar_app_requests_total{app="quiet",status="2xx"} 0',
    'cellar_control_plane_up 1',
    'cellar_cells 2',
    'cellar_apps{status="running"} 2',
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

  if (!hasPrometheus) return t.diagnostic('prometheus is not installed: apt-get install prometheus');
  await using prometheus = await startPrometheus(cellar);
  const asked = 'sum(cellar_app_requests_total{app="counted"})';
  await eventually(async () => (await prometheus.ask(asked)) === '5', 'Prometheus has read the figures');
  assert.equal(await prometheus.ask('up{job="cellar"}'), '1');
  const p99 = 'histogram_quantile(0.99, cellar_app_request_duration_seconds_bucket{app="counted"})';
  assert.ok(Number(await prometheus.ask(p99)) > 0);

  await cellar.get('quiet');
  const increase = 'sum(increase(cellar_app_requests_total{app="quiet"}[1m]))';
  await eventually(
    async () => Number(await prometheus.ask(increase)) > 0,
    'the first request of an app is an increase',
  );
});
