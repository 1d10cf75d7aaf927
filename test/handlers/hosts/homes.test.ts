// Homes of apps in a Cellar of several hosts: reports, calls by home, moves and reconcile. The home of an app is the host that
// runs it.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import type { HostReport, HostReportAnswer } from '../../../handlers/contract/host/hosts.ts';
import { TestControl } from '../../support/handlers/control.ts';
import type { Sent } from '../../support/handlers/host.ts';
import { LOAD, reportOf } from '../../support/handlers/hosts.ts';

let control: TestControl;
beforeEach(async () => {
  control = await TestControl.start({ HOST_ID: 'a', HAS_BUCKET: 'true', RUNNER_STORAGE: 'bucket' });
});
afterEach(() => control.stop());

async function report(id: string, changed: Partial<HostReport> = {}): Promise<HostReportAnswer> {
  const { status, text, body } = await control.internal('/internal/hosts/report', reportOf(id, changed));
  assert.equal(status, 200, text);
  return body;
}

/** Reports two hosts. Host `a` has more free memory. */
async function join(): Promise<void> {
  await report('a');
  await report('b', { load: { ...LOAD, memory_free_bytes: 4 * 2 ** 30 } });
}

/** Returns method and path of each call to the host since the last use of this function. */
const calls = () => control.host.sent.splice(0).map(({ method, path }: Sent) => `${method} ${path}`);

const homeOf = async (id: string) => (await control.call('apps.get', { id })).home;

test('a new app goes to the host with most room, and every call about it names that host', async () => {
  await join();
  calls();
  const app = await control.create('shop');
  assert.deepEqual(app.home, { id: 'a', name: 'box-a' });
  assert.equal(control.host.wanted.get(app.id)?.home, 'a');
  assert.deepEqual(calls(), [`PUT /apps/${app.id}?home=a`]);
  await report('a', { load: { ...LOAD, memory_free_bytes: 2 ** 30 } });
  const other = await control.create('blog');
  assert.deepEqual(other.home, { id: 'b', name: 'box-b' });
  const slugsAt = async (host: string) =>
    (await control.call('apps.list', { host })).items.map(({ slug }: { slug: string }) => slug);
  assert.deepEqual([await slugsAt('a'), await slugsAt('b'), await slugsAt('c')], [['shop'], ['blog'], []]);
  assert.equal((await control.api('DELETE', `/v1/apps/${other.id}`)).status, 204);
  assert.match(calls().at(-1)!, new RegExp(`^DELETE /apps/${other.id}\\?home=b&generation=\\d+$`));
});

test('in a Cellar of one host, an app has no home, and calls name none', async (t) => {
  const one = await TestControl.start();
  t.after(() => one.stop());
  const app = await one.create('shop');
  assert.equal(app.home, null);
  assert.equal(one.host.sent.at(-1)?.path, `/apps/${app.id}`);
  assert.equal(one.host.wanted.get(app.id)?.home, undefined);
  assert.deepEqual((await one.call('hosts.list', {})).items, []);
  assert.equal((await one.refusal('apps.move', { id: app.id, host: 'b' })).code, 'host_not_found');
});

test('a report gets all routes at first, then those that changed and what was deleted', async () => {
  await join();
  const shop = await control.create('shop');
  const first = await report('a');
  assert.equal(first.whole, true);
  assert.deepEqual(
    first.hosts.map(({ id, name, state }) => [id, name, state]),
    [
      ['a', 'box-a', 'active'],
      ['b', 'box-b', 'active'],
    ],
  );
  assert.deepEqual(first.routes, [
    {
      ...{ id: shop.id, slug: 'shop', owner: shop.owner, hostnames: [], mail: [], tcp: [] },
      ...{ limits: { clientRpm: null, appRpm: null }, storage: 'bucket', home: 'a' },
      generation: control.host.wanted.get(shop.id)?.generation,
    },
  ]);
  const since = { revision: first.revision };
  assert.deepEqual(await report('a', since), { ...first, whole: false, routes: [] });

  await control.call('limits.set', { id: shop.id, clientRpm: 5 });
  await control.call('domains.add', { id: shop.id, hostname: 'shop.example.com' });
  const blog = await control.create('blog');
  const second = await report('a', since);
  assert.deepEqual([second.whole, second.deleted], [false, []]);
  assert.deepEqual(
    second.routes.map(({ id, hostnames, limits }) => [id, hostnames, limits.clientRpm]).sort(),
    [
      [shop.id, ['shop.example.com'], 5],
      [blog.id, [], null],
    ].sort(),
  );

  await control.api('DELETE', `/v1/apps/${shop.id}`);
  const third = await report('a', { revision: second.revision });
  assert.deepEqual([third.whole, third.routes, third.deleted], [false, [], [shop.id]]);
  assert.equal((await report('a', { revision: third.revision + 1 })).whole, true, 'an older database');
});

test('an app whose creation failed is a deletion for hosts that have heard of it', async () => {
  await join();
  const { revision } = await report('a');
  control.host.failing = 500;
  assert.equal((await control.api('POST', '/v1/apps', { slug: 'shop' })).status, 503);
  control.host.failing = null;
  const { deleted, routes } = await report('a', { revision });
  assert.deepEqual([deleted.length, routes], [1, []]);
});

test('a move prepares the new home, hands the app over, and opens it there', async () => {
  await join();
  const { id } = await control.create('shop');
  const { generation } = control.host.wanted.get(id)!;
  calls();
  const moved = await control.call('apps.move', { id, host: 'box-b' });
  assert.deepEqual([moved.moved, moved.from, moved.to], [true, 'bucket', 'bucket']);
  assert.deepEqual(calls(), [
    `POST /apps/${id}/prepare?home=b`,
    `POST /apps/${id}/hand-over?home=a`,
    `PUT /apps/${id}?home=b`,
  ]);
  assert.ok(control.host.wanted.get(id)!.generation > generation);
  assert.deepEqual(await homeOf(id), { id: 'b', name: 'box-b' });
  assert.equal((await control.call('apps.move', { id, host: 'b' })).moved, false);
});

test('an app stays at its new home for some seconds before it moves on, and can be changed meanwhile', async () => {
  await join();
  const { id } = await control.create('shop');
  await control.call('apps.move', { id, host: 'b' });
  const from = performance.now();
  const back = control.call('apps.move', { id, host: 'a' });
  await control.call('limits.set', { id, clientRpm: 5 });
  const changedMs = performance.now() - from;
  assert.equal((await back).moved, true);
  const movedMs = performance.now() - from;
  assert.ok(
    movedMs > 2_500 && changedMs < movedMs - 500,
    `changed after ${changedMs}, moved after ${movedMs}`,
  );
  assert.equal((await homeOf(id)).id, 'a');
});

test('a move that cannot be prepared changes nothing; one that cannot be handed over goes on', async () => {
  await join();
  const { id } = await control.create('shop');
  control.host.moves.set('prepare', 500);
  assert.equal((await control.refusal('apps.move', { id, host: 'b' })).code, 'host_unavailable');
  assert.equal((await homeOf(id)).id, 'a');
  control.host.moves.clear();
  control.host.moves.set('hand-over', 500);
  assert.equal((await control.call('apps.move', { id, host: 'b' })).moved, true);
  assert.equal(control.host.wanted.get(id)?.home, 'b');
});

test('an app whose home refuses to hand it over stays there, also if its data has just moved to the disk', async () => {
  await join();
  const { id } = await control.create('shop');
  const database = await control.database();
  // The home reports the end of its own move before it refuses.
  await database
    .prepare(
      `CREATE TRIGGER moved AFTER UPDATE OF home ON apps WHEN NEW.home = 'b'
       BEGIN UPDATE apps SET storage = 'local' WHERE id = NEW.id; END`,
    )
    .run();
  control.host.refusal = 'the app is being moved';
  calls();
  const refused = await control.refusal('apps.move', { id, host: 'b' });
  assert.deepEqual([refused.code, refused.detail], ['transition_conflict', 'The app is being moved.']);
  assert.deepEqual(calls(), [`POST /apps/${id}/prepare?home=b`, `POST /apps/${id}/hand-over?home=a`]);
  assert.equal((await homeOf(id)).id, 'a');
});

test('no app moves to a host that is drained', async () => {
  await join();
  const { id } = await control.create('shop');
  await control.call('hosts.drain', { host: 'b' });
  const refused = await control.refusal('apps.move', { id, host: 'b' });
  assert.deepEqual([refused.code, /drain/.test(refused.detail)], ['host_unavailable', true]);
  assert.equal((await homeOf(id)).id, 'a');
  await control.call('hosts.drain', { host: 'b', drain: false });
  assert.equal((await control.call('apps.move', { id, host: 'b' })).moved, true);
});

test('a move is refused for data on a machine, an unknown host, and an input that is not clear', async () => {
  await join();
  const { id } = await control.create('shop');
  const local = (await control.api('POST', '/v1/apps', { slug: 'blog', storage: 'local' })).body;
  const refused = async (params: object) => (await control.refusal('apps.move', params)).code;
  assert.equal(await refused({ id: local.id, host: 'b' }), 'app_immovable');
  assert.equal(await refused({ id, host: 'c' }), 'host_not_found');
  assert.equal(await refused({ id, host: 'b', to: 'local' }), 'invalid_input');
  assert.equal(await refused({ id }), 'invalid_input');
  assert.equal((await control.call('apps.move', { id, host: 'b', dry_run: true })).moved, false);
  assert.equal((await homeOf(id)).id, 'a');
});

test('a lost host does not hand over: its apps open elsewhere', async () => {
  const database = await control.database();
  await database
    .prepare(
      `INSERT INTO hosts (id, name, address, version, protocol, started_at, joined_at)
       VALUES ('b', 'box-b', '', '', 1, '', '')`,
    )
    .run();
  await report('a');
  const { id } = await control.create('shop');
  await database.prepare(`UPDATE apps SET home = 'b' WHERE id = ?`).bind(id).run();
  calls();
  const { hosts } = await report('a', { unanswered: [{ id: 'b', ms: 20_000 }] });
  assert.deepEqual(
    hosts.map(({ state }) => state),
    ['silent', 'active'],
  );
  const deadline = Date.now() + 20_000;
  while ((await homeOf(id)).id !== 'a' && Date.now() < deadline);
  assert.equal((await homeOf(id)).id, 'a');
  const { revision } = await report('a');
  assert.ok(revision > 0);
  assert.deepEqual(calls(), [`PUT /apps/${id}?home=a`]);
});

test('a deleted app of a removed host needs no confirmation', async () => {
  await join();
  const { id } = await control.create('shop');
  await (await control.database()).prepare(`UPDATE apps SET home = 'gone' WHERE id = ?`).bind(id).run();
  calls();
  assert.equal((await control.api('DELETE', `/v1/apps/${id}`)).status, 204);
  assert.deepEqual(calls(), []);
  await control.create('shop');
});

test('a drain moves apps one by one; the list of hosts says how many are left', async () => {
  await join();
  const ids: string[] = [];
  for (const slug of ['one-app', 'two-app', 'three-app']) ids.push((await control.create(slug)).id);
  await control.api('POST', '/v1/apps', { slug: 'local-app', storage: 'local' });
  const before = (await control.call('hosts.list', {})).items;
  assert.deepEqual(
    before.map(({ id, state, apps, local_apps }: Record<string, unknown>) => [id, state, apps, local_apps]),
    [
      ['a', 'active', 4, 1],
      ['b', 'active', 0, 0],
    ],
  );
  assert.equal(before[0].load.memory_total_bytes, LOAD.memory_total_bytes);
  assert.equal(await control.call('hosts.drain', { host: 'box-a' }), null);
  const deadline = Date.now() + 20_000;
  const left = async () => (await control.call('hosts.list', {})).items[0].apps;
  while ((await left()) > 1 && Date.now() < deadline);
  assert.equal(await left(), 1);
  for (const id of ids) assert.equal((await homeOf(id)).id, 'b');
  assert.equal((await control.refusal('hosts.remove', { host: 'a' })).code, 'host_in_use');
  assert.equal((await control.refusal('hosts.drain', { host: 'c' })).code, 'host_not_found');
  assert.equal((await control.api('DELETE', '/v1/hosts/b')).status, 409);
});

test('reconcile is about the apps of this host, and hands over those of others', async () => {
  await join();
  const here = await control.create('here');
  const there = await control.create('there');
  await control.call('apps.move', { id: there.id, host: 'b' });
  await control.call('env.set', { id: here.id, name: 'A', value: '1' });
  const stale = control.host.wanted.get(here.id)!;
  control.host.wanted.set(here.id, { ...stale, generation: stale.generation - 1 });
  calls();
  const { status, body } = await control.internal('/internal/reconcile', {});
  assert.deepEqual([status, body], [200, { pushed: 1, trashed: 0, refused: 0 }]);
  const sent = control.host.sent.find(({ path }) => path.includes('hand-over'))!;
  const { generation } = control.host.wanted.get(there.id)!;
  assert.deepEqual(
    [sent.path, JSON.parse(sent.body)],
    [`/apps/${there.id}/hand-over?home=a`, { to: 'b', generation }],
  );
  assert.deepEqual(calls().sort(), [
    'GET /apps',
    `POST /apps/${there.id}/hand-over?home=a`,
    `PUT /apps/${here.id}?home=a`,
  ]);
});

test('figures come from every host that answers', async () => {
  await join();
  const stats = await control.call('admin.stats', {});
  assert.ok(stats.host);
  assert.deepEqual(
    stats.other_hosts.map(({ id, name }: { id: string; name: string }) => [id, name]),
    [['b', 'box-b']],
  );
  assert.deepEqual(calls().sort(), ['GET /stats?home=a', 'GET /stats?home=b']);
});

test('the assets and the code of a new app go to the same host', async () => {
  await join();
  const { owner } = await control.create('shop');
  const homes = new Set<string>();
  for (let n = 0; n < 12; n++) {
    calls();
    const script = `/client/v4/accounts/${owner}/workers/scripts/new-${n}`;
    await control.api('POST', `${script}/assets-upload-session`, { manifest: {} });
    await control.api('PUT', script, 'code');
    const sent = calls().filter((call) => call.includes('/uploads/'));
    const [assets, code] = sent.map((call) => new URLSearchParams(call.split('?')[1]).get('home'));
    assert.ok(assets !== null && assets === code, sent.join(' '));
    homes.add(assets!);
  }
  assert.deepEqual([...homes].sort(), ['a', 'b'], 'names spread over the hosts');
});

test('a restored machine is the home of its local apps, once the host that had them is removed', async () => {
  const database = await control.database();
  const joined = `INSERT INTO hosts (id, name, address, version, protocol, started_at, joined_at, silent_since)
    VALUES ('lost', 'lost', '', '', 1, '', '', '2026-01-01')`;
  await database.prepare(joined).run();
  await report('a');
  const { id } = (await control.api('POST', '/v1/apps', { slug: 'shop', storage: 'local' })).body;
  await database.prepare(`UPDATE apps SET home = 'lost' WHERE id = ?`).bind(id).run();
  control.host.facts.set(id, { storage: 'local' });
  await control.internal('/internal/reconcile', {});
  assert.equal((await homeOf(id)).id, 'lost', 'that host may come back');
  await control.call('hosts.remove', { host: 'lost' });
  calls();
  assert.deepEqual((await control.internal('/internal/reconcile', {})).body, {
    pushed: 1,
    trashed: 0,
    refused: 0,
  });
  assert.deepEqual(await homeOf(id), { id: 'a', name: 'box-a' });
  assert.deepEqual(calls(), ['GET /apps', `PUT /apps/${id}?home=a`]);
});
