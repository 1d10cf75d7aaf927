// Requests, pushes and calls that reach another host than the home of their app.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { layout } from '../../runtime/disk/data-directory.ts';
import { eventually } from '../support/e2e/processes.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';

const SHOP = {
  'wrangler.json': JSON.stringify({ name: 'x', main: 'index.js', compatibility_date: '2026-10-01' }),
  'index.js': `export default {
  async fetch(request) {
    if (request.method === 'POST') return new Response(request.body);
    return new Response('the shop at ' + new URL(request.url).hostname);
  },
};`,
};

let hosts: Hosts;
/** The home of the app `shop`, and the host that is not. */
let [home, other]: TestHost[] = [];
let shop = '';

before(async () => {
  hosts = await Hosts.start(2);
  const [one] = hosts.all as [TestHost];
  const { items } = await rpcOf(one)('hosts.list', {});
  const created = await rpcOf(one)('apps.create', { slug: 'shop', storage: 'bucket' });
  shop = created.id;
  const { address } = items.find(({ id }: { id: string }) => id === created.home.id);
  home = hosts.all.find((host) => host.address === address)!;
  other = hosts.all.find((host) => host !== home)!;
});
after(() => hosts[Symbol.asyncDispose]());

test('a push to the other host is deployed at the home, and both hosts serve it', async () => {
  await other!.deployAgain('shop', 'hello', SHOP);
  for (const host of [home!, other!])
    assert.equal((await host.get('shop')).text, 'the shop at shop.localhost');
  const body = randomBytes(2 ** 20).toString('hex');
  const { text } = await other!.get('shop', '/', { method: 'POST', body });
  assert.equal(text, body);
});

test('the API of each host reads what is at the home', async () => {
  for (const host of hosts.all) {
    const { status, body } = await host.call('GET', `/v1/apps/${shop}/deploys`);
    assert.equal(status, 200);
    assert.equal(body.items.length, 1);
    const log = await host.call('GET', `/v1/apps/${shop}/deploys/${body.items[0].id}/log`);
    assert.match(JSON.stringify(log.body), /start: the first release/);
  }
});

test('both access logs name the hosts, under one trace', async () => {
  const id = randomBytes(8).toString('hex');
  assert.equal((await other!.get('shop', `/${id}`)).status, 200);
  const lineOf = ({ data }: TestHost) =>
    readFileSync(layout(data).accessLog, 'utf8')
      .split('\n')
      .find((line) => line.includes(id));
  await eventually(() => hosts.all.every((host) => lineOf(host) !== undefined), 'both have the line');
  const [there, here] = [home!, other!].map((host) => JSON.parse(lineOf(host)!));
  assert.equal(here.trace_id, there.trace_id);
  assert.ok(here.home);
  assert.equal(there.home, undefined);
  assert.deepEqual([here.site, there.site], [shop, shop]);
});

test('a name that nobody has is not found at each host', async () => {
  for (const host of hosts.all) assert.equal((await host.get('nobody')).status, 404);
});
