// Hostnames whose ownership must be proved. A real DNS server answers lookups with records that the tests set.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DomainChecks } from '../../../runtime/edge/domain-checks.ts';
import { NameServer } from '../../support/edge/name-server.ts';
import { TestControl } from '../../support/handlers/control.ts';

const DAY_MS = 24 * 3_600_000;

let control: TestControl;
let server: NameServer;
before(async () => {
  server = await new NameServer().listen();
  server.names.set('apps.cellar.example', { A: ['203.0.113.5'] });
  control = await TestControl.start({
    RUNNER_MAX_APPS_PER_USER: '100',
    BASE_DOMAIN: 'apps.cellar.example',
    DOMAIN_PROOF: 'on',
  });
  const checks = new DomainChecks({
    baseDomain: 'apps.cellar.example',
    certificates: null,
    lookups: () => server.resolver(),
    ownAddresses: () => [],
  });
  control.host.lookUp = (hostname) => checks.lookUp(hostname, 'test');
});
after(async () => {
  await control.stop();
  server.close();
});

const add = (id: string, hostname: string) => control.api('POST', `/v1/apps/${id}/domains`, { hostname });
const served = (id: string) => control.host.wanted.get(id)!.hostnames;
const mayHaveCertificate = async (hostname: string) =>
  (await control.fetch('GET', `/v1/edge/tls-ask?domain=${hostname}`)).status === 200;

/** Creates an app in a new account. */
async function appOfAnother(slug: string): Promise<string> {
  const { id: owner } = await control.call('accounts.create', { name: slug, email: `${slug}@example.com` });
  return (await control.api('POST', '/v1/apps', { slug, owner })).body.id;
}

test('a hostname is pending and not served until it points here and a check by the host sees that', async () => {
  const { id } = await control.create('points');
  server.names.set('points.example', { A: ['198.51.100.7'] });
  const { status, body } = await add(id, 'points.example');
  assert.deepEqual([status, body.state], [201, 'pending']);
  assert.match(body.reason, /points to 198\.51\.100\.7 and not to this machine \(203\.0\.113\.5\)/);
  assert.match(body.reason, /_cellar\.points\.example has no TXT record/);
  assert.deepEqual(body.records, [
    { type: 'CNAME', name: 'points.example', value: 'apps.cellar.example' },
    { type: 'TXT', name: '_cellar.points.example', value: id },
  ]);
  assert.deepEqual(served(id), []);
  assert.equal(await mayHaveCertificate('points.example'), false);

  server.names.set('points.example', { CNAME: ['apps.cellar.example'], A: ['203.0.113.5'] });
  await control.internal('/internal/domains', {});
  assert.deepEqual(served(id), [], 'it is looked up once a minute');
  const database = await control.database();
  const earlier = new Date(Date.now() - 60_000).toISOString();
  await database.prepare('UPDATE domains SET checked_at = ?').bind(earlier).run();
  assert.equal((await control.internal('/internal/domains', {})).status, 204);
  const [domain] = (await control.call('domains.list', { id })).items;
  assert.deepEqual([domain.state, domain.reason, domain.records], ['active', null, []]);
  assert.deepEqual(served(id), ['points.example']);
  assert.equal(await mayHaveCertificate('points.example'), true);
});

test('a TXT record that names the app by id or slug proves a hostname, and one that names another does not', async () => {
  const { id } = await control.create('named');
  server.names.set('_cellar.named.example', { TXT: ['another'] });
  const { body } = await add(id, 'named.example');
  assert.equal(body.state, 'pending');
  assert.match(body.reason, /has no address.*has a TXT record that does not name the app/);
  server.names.set('_cellar.named.example', { TXT: ['v=spf1 -all', id] });
  const checked = await control.call('domains.check', { id, hostname: 'named.example' });
  assert.deepEqual([checked.state, checked.dns.leads], ['active', 'none']);
  assert.deepEqual(served(id), ['named.example']);
  server.names.set('_cellar.slug.example', { TXT: ['named'] });
  assert.equal((await add(id, 'slug.example')).body.state, 'active');
  assert.equal(
    (await control.refusal('domains.check', { id, hostname: 'other.example' })).code,
    'domain_not_found',
  );
});

test('a hostname that cannot be looked up is kept pending, and stays active once it was proved', async () => {
  const { id } = await control.create('unsure');
  const { lookUp } = control.host;
  control.host.lookUp = () => Promise.reject(new Error('down'));
  const { status, body } = await add(id, 'unsure.example');
  control.host.lookUp = lookUp;
  assert.deepEqual([status, body.state], [201, 'pending']);
  assert.match(body.reason, /could not be looked up/);
  server.names.set('unsure.example', { A: ['203.0.113.5'] });
  assert.equal((await control.call('domains.check', { id, hostname: 'unsure.example' })).state, 'active');
  server.names.delete('unsure.example');
  const later = await control.call('domains.check', { id, hostname: 'unsure.example' });
  assert.deepEqual([later.state, later.dns.leads], ['active', 'none']);
});

test('a pending hostname does not keep it from an app that DNS names', async () => {
  const { id: first } = await control.create('squatter');
  const second = await appOfAnother('rightful');
  await add(first, 'wanted.example');
  const refused = await add(second, 'wanted.example');
  assert.deepEqual([refused.status, refused.body.code], [409, 'domain_taken']);
  assert.match(refused.body.detail, new RegExp(`TXT record _cellar.wanted.example to ${second}`));
  server.names.set('wanted.example', { A: ['203.0.113.5'] });
  assert.equal((await add(second, 'wanted.example')).status, 409, 'that it points here names no app');
  server.names.set('_cellar.wanted.example', { TXT: [second] });
  assert.deepEqual((await add(second, 'wanted.example')).body.state, 'active');
  assert.deepEqual([served(first), served(second)], [[], ['wanted.example']]);
  server.names.set('_cellar.wanted.example', { TXT: [first] });
  assert.equal((await add(first, 'wanted.example')).status, 409, 'what is proved stays where it is');
});

test('a hostname that was served is reserved for its owner for 7 days, even when its app was deleted', async () => {
  const { id } = await control.create('owner-1');
  const { id: same } = await control.create('owner-2');
  const other = await appOfAnother('stranger');
  for (const name of ['removed.example', 'deleted.example', 'never.example']) {
    server.names.set(name, name === 'never.example' ? {} : { A: ['203.0.113.5'] });
    await add(id, name);
  }
  for (const name of ['removed.example', 'never.example'])
    assert.equal((await control.api('DELETE', `/v1/apps/${id}/domains/${name}`)).status, 204);
  await control.api('DELETE', `/v1/apps/${id}`);
  for (const name of ['removed.example', 'deleted.example']) {
    server.names.set(`_cellar.${name}`, { TXT: [other] });
    const refused = await add(other, name);
    assert.deepEqual([refused.status, refused.body.code], [409, 'domain_taken'], name);
    assert.match(refused.body.detail, /reserved for that account until 20\d\d-/);
  }
  assert.equal((await add(other, 'never.example')).status, 201, 'what was never proved is free at once');
  assert.equal((await add(same, 'removed.example')).body.state, 'active', 'the owner has it back');
  const database = await control.database();
  const removed = new Date(Date.now() - 7 * DAY_MS - 1).toISOString();
  await database.prepare('UPDATE removed_domains SET removed_at = ?').bind(removed).run();
  await control.internal('/internal/prune', {});
  assert.equal((await add(other, 'deleted.example')).body.state, 'active');
});

test('reservations outlive a short retention', async () => {
  const brief = await TestControl.start({ RUNNER_TELEMETRY_RETENTION_DAYS: '1' });
  try {
    const { id } = await brief.create('brief');
    await brief.call('domains.add', { id, hostname: 'brief.example' });
    await brief.call('domains.remove', { id, hostname: 'brief.example' });
    const database = await brief.database();
    const removed = new Date(Date.now() - 6 * DAY_MS).toISOString();
    await database.prepare('UPDATE removed_domains SET removed_at = ?').bind(removed).run();
    await brief.internal('/internal/prune', {});
    const { count } = await database.prepare('SELECT count(*) AS count FROM removed_domains').first();
    assert.equal(count, 1);
  } finally {
    await brief.stop();
  }
});

test('names of this Cellar, its parents, localhost and the machine are refused', async () => {
  const { id } = await control.create('own-names');
  for (const [hostname, message] of [
    ['apps.cellar.example', /belong to this Cellar/],
    ['x.apps.cellar.example', /belong to this Cellar/],
    ['cellar.example', /parent/],
    ['x.localhost', /localhost/],
    ['localhost.localdomain', /localhost/],
    ['box.example.net', /machine/],
    ['box.local', /machine/],
  ] as const) {
    const { status, body } = await add(id, hostname);
    assert.equal(status, 400, hostname);
    assert.match(body.errors[0].message, message, hostname);
  }
  assert.equal((await add(id, 'www.cellar.example')).status, 201, 'a name beside the base domain');
});

test('a pasted page address adds its hostname', async () => {
  const { id } = await control.create('pasted');
  const texts = [
    'https://One.pasted.example/path?q=1#top',
    'http://two.pasted.example:8443/',
    '  three.pasted.example.  ',
    'four.pasted.example.:443',
    'HTTPS://münchen.pasted.example',
  ];
  const names: string[] = [];
  for (const text of texts) {
    const { status, body } = await add(id, text);
    assert.equal(status, 201, text);
    names.push(body.hostname.replace('.pasted.example', ''));
  }
  assert.deepEqual(names, ['one', 'two', 'three', 'four', 'xn--mnchen-3ya']);
  assert.equal((await add(id, 'HTTP://one.pasted.example')).status, 409, 'it is the same');
  for (const text of [
    'https://',
    'ftp://five.pasted.example',
    'https://me:secret@five.pasted.example',
    'five',
    'https://10.0.0.1/',
  ])
    assert.equal((await add(id, text)).body.errors[0].path, 'hostname', text);
  await control.call('domains.remove', { id, hostname: 'https://one.pasted.example/' });
  assert.equal((await add(id, 'one.pasted.example')).status, 201);
});
