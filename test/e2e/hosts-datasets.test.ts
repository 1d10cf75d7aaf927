// SQL over the data points of apps on several hosts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts } from '../support/hosts/hosts.ts';
import { eventually } from '../support/processes.ts';

/** Writes a point into its own dataset, and one into a dataset of both apps. */
const WRITER = `export default { fetch(_, { OWN, BOTH }) {
  OWN.writeDataPoint({ doubles: [1] });
  BOTH.writeDataPoint({ doubles: [2] });
  return new Response('written');
} }`;

let hosts: Hosts;
const rpc = (name: string, body: object) => rpcOf(hosts.all[0]!)(name, body);

before(async () => {
  hosts = await Hosts.start(2, { RUNNER_STORAGE: 'bucket' });
});
after(() => hosts[Symbol.asyncDispose]());

test('SHOW TABLES lists the datasets of all hosts, and a dataset of several hosts is not queried', async () => {
  const [first] = hosts.all;
  const { items } = await rpc('hosts.list', {});
  const ids: string[] = [];
  for (const [i, host] of items.entries()) {
    const slug = `writer${i}`;
    const datasets = [
      { binding: 'OWN', dataset: `own${i}` },
      { binding: 'BOTH', dataset: 'both' },
    ];
    const id = await first!.deploy(slug, 'hello', {
      'index.js': WRITER,
      'wrangler.jsonc': JSON.stringify({
        main: 'index.js',
        compatibility_date: '2026-10-01',
        analytics_engine_datasets: datasets,
      }),
    });
    ids.push(id);
    const home = async () => (await rpc('apps.get', { id })).home.id;
    if ((await home()) !== host.id)
      await eventually(
        async () => (await rpc('apps.move', { id, host: host.id })).code === undefined,
        'the app moves',
        30_000,
      );
    assert.equal(await home(), host.id);
    assert.equal((await first!.get(slug, '/')).text, 'written');
  }
  const { owner } = await rpc('apps.get', { id: ids[0] });
  const ask = async (sql: string, token: string, api: string) => {
    const address = `${api}/client/v4/accounts/${owner}/analytics_engine/sql`;
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/plain' };
    const response = await fetch(address, { method: 'POST', body: sql, headers });
    return [response.status, await response.text()] as const;
  };
  for (const { api, token } of hosts.all) {
    await eventually(async () => {
      const [, text] = await ask('SHOW TABLES FORMAT TabSeparated', token, api);
      return text === 'both\tnative\nown0\tnative\nown1\tnative\n';
    }, 'all datasets are listed');
    const sum = (dataset: string, key = token) =>
      ask(`SELECT sum(double1) FROM ${dataset} FORMAT TabSeparated`, key, api);
    assert.deepEqual(await sum('own0'), [200, '1\n']);
    assert.deepEqual(await sum('own1'), [200, '1\n']);
    assert.deepEqual(await ask('SELECT 1 FORMAT TabSeparated', token, api), [200, '1\n']);
    const [status, text] = await sum('both');
    assert.equal(status, 409, text);
    assert.match(text, /Apps on several hosts have written to this dataset: move them to one host/);
    for (const app of ids) {
      const { key } = await rpc('keys.create', { account: owner, scope: 'read', app });
      assert.deepEqual(await sum('both', key), [200, '2\n']);
    }
    assert.equal((await sum('none'))[0], 404);
  }
});
