// Settings of an app: variables, domains, limits, slug. Each change sends the host the whole state.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AuditEntry } from '../../../handlers/contract/people/audit.ts';
import { TestControl } from '../../support/handlers/control.ts';
import { HOST_STATS } from '../../support/handlers/host.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '100' });
});
after(() => control.stop());

test('a variable is set, replaced, listed and removed, and the host is sent all of them', async () => {
  const { id } = await control.create('variables');
  const path = `/v1/apps/${id}/env`;
  const set = await control.api('POST', path, { name: 'COLOR', value: 'red' });
  assert.equal(set.status, 201);
  assert.deepEqual(Object.keys(set.body).sort(), ['name', 'updated_at', 'value']);
  const replaced = await control.api('POST', path, { name: 'COLOR', value: 'blue' });
  assert.deepEqual([replaced.status, replaced.body.value], [200, 'blue']);
  await control.call('env.set', { id, name: 'A', value: '' });
  const { items } = (await control.api('GET', path)).body;
  assert.deepEqual(
    items.map(({ name, value }: { name: string; value: string }) => [name, value]),
    [
      ['A', ''],
      ['COLOR', 'blue'],
    ],
  );
  assert.deepEqual(control.host.wanted.get(id)!.env, { A: '', COLOR: 'blue' });
  assert.equal((await control.api('DELETE', `${path}/COLOR`)).status, 204);
  assert.deepEqual(control.host.wanted.get(id)!.env, { A: '' });
  const gone = await control.api('DELETE', `${path}/COLOR`);
  assert.deepEqual([gone.status, gone.body.code], [404, 'env_not_found']);
  assert.equal((await control.api('GET', '/v1/apps/nope/env')).body.code, 'app_not_found');
  assert.equal(
    (await control.api('POST', '/v1/apps/nope/env', { name: 'A', value: '' })).body.code,
    'app_not_found',
  );
});

test('reserved and ill-formed names, and values that no process takes, are refused', async () => {
  const { id } = await control.create('reserved');
  const names = [
    'RUNNER_X',
    'SERVICE_X',
    'CELLAR_',
    'GIT_DIR',
    'LD_PRELOAD',
    'DYLD_X',
    'npm_config_registry',
  ];
  names.push('NPM_CONFIG_REGISTRY', 'PATH', 'HOME', 'SHELL', 'USER', 'TMPDIR', 'PWD', 'CI', 'NODE_OPTIONS');
  names.push('NODE_PATH', 'BASH_ENV', 'ENV', '1A', 'A-B', 'A=B', '', 'Ä', 'A\nB', 'A'.repeat(129));
  for (const name of names) {
    const { status, body } = await control.api('POST', `/v1/apps/${id}/env`, { name, value: 'x' });
    assert.deepEqual([status, body.errors[0].path], [400, 'name'], name);
  }
  const { body } = await control.api('POST', `/v1/apps/${id}/env`, { name: 'NODE_OPTIONS', value: 'x' });
  assert.match(
    body.errors[0].message,
    /reserved for the platform: set it before the command .*--build-command/,
  );
  for (const value of ['a\0b', 'x'.repeat(16_385), 7, null]) {
    const { body } = await control.api('POST', `/v1/apps/${id}/env`, { name: 'OK', value });
    assert.equal(body.errors[0].path, 'value');
  }
  assert.equal((await control.api('POST', `/v1/apps/${id}/env`, { name: 'PATHS', value: '1' })).status, 201);
});

test('an app has at most 100 variables, and replacing one adds none', async () => {
  const { id } = await control.create('many');
  const calls = Array.from({ length: 100 }, (_, n) => ({
    jsonrpc: '2.0',
    id: n,
    method: 'env.set',
    params: { id, name: `V${n}`, value: 'x' },
  }));
  for (let n = 0; n < 100; n += 10) await control.rpc(calls.slice(n, n + 10));
  const over = await control.api('POST', `/v1/apps/${id}/env`, { name: 'MORE', value: 'x' });
  assert.deepEqual([over.status, over.body.code], [403, 'quota_exceeded']);
  assert.equal((await control.api('POST', `/v1/apps/${id}/env`, { name: 'V7', value: 'y' })).status, 200);
  assert.equal(Object.keys(control.host.wanted.get(id)!.env).length, 100);
});

test('a domain is attached in its normal form, to one app only, and detached', async () => {
  const { id } = await control.create('domains');
  const { id: other } = await control.create('domains-2');
  const path = `/v1/apps/${id}/domains`;
  const added = await control.api('POST', path, { hostname: 'Shop.Example.COM.' });
  assert.equal(added.status, 201);
  assert.deepEqual([added.body.hostname, added.body.app_id], ['shop.example.com', id]);
  assert.deepEqual(control.host.wanted.get(id)!.hostnames, ['shop.example.com']);
  for (const app of [id, other]) {
    const taken = await control.api('POST', `/v1/apps/${app}/domains`, { hostname: 'shop.example.com' });
    assert.deepEqual([taken.status, taken.body.code], [409, 'domain_taken']);
  }
  const unicode = await control.api('POST', path, { hostname: 'bücher.example' });
  assert.equal(unicode.body.hostname, 'xn--bcher-kva.example');
  assert.equal((await control.api('GET', path)).body.items.length, 2);
  assert.equal((await control.api('DELETE', `${path}/SHOP.example.com`)).status, 204);
  assert.equal((await control.api('DELETE', `${path}/shop.example.com`)).body.code, 'domain_not_found');
  assert.equal(
    (await control.api('POST', `/v1/apps/${other}/domains`, { hostname: 'shop.example.com' })).status,
    201,
  );
  assert.deepEqual(control.host.wanted.get(id)!.hostnames, ['xn--bcher-kva.example']);
});

test('text that is no hostname, and names of this Cellar, cannot be attached', async () => {
  const { id } = await control.create('hostless');
  const names = [
    'localhost',
    'x.localhost',
    'api.localhost',
    'example',
    '*.example.com',
    '10.0.0.1',
    '[::1]',
  ];
  names.push('a..example', '-a.example', 'user@a.example', '');
  names.push(`${'a'.repeat(64)}.example`, 'a b.example', '0x7f.1', 'a.1');
  for (const hostname of names) {
    const { status, body } = await control.api('POST', `/v1/apps/${id}/domains`, { hostname });
    assert.deepEqual([status, body.errors?.[0].path], [400, 'hostname'], hostname);
  }
});

test('a deleted app gives its domains back', async () => {
  const { id } = await control.create('briefly');
  await control.api('POST', `/v1/apps/${id}/domains`, { hostname: 'briefly.example' });
  await control.api('DELETE', `/v1/apps/${id}`);
  const { id: next } = await control.create('next');
  assert.equal(
    (await control.api('POST', `/v1/apps/${next}/domains`, { hostname: 'briefly.example' })).status,
    201,
  );
});

test('limits are read and set; null is the default, 0 is off, one left out stays', async () => {
  const { id } = await control.create('limited');
  const defaults = { clientRpm: 1800, appRpm: 0 };
  assert.deepEqual(await control.call('limits.get', { id }), { clientRpm: null, appRpm: null, defaults });
  const set = await control.call('limits.set', { id, clientRpm: 60, appRpm: 0 });
  assert.deepEqual(set, { clientRpm: 60, appRpm: 0, defaults });
  assert.deepEqual(control.host.wanted.get(id)!.limits, { clientRpm: 60, appRpm: 0 });
  assert.deepEqual(await control.call('limits.set', { id, clientRpm: null }), {
    clientRpm: null,
    appRpm: 0,
    defaults,
  });
  for (const clientRpm of [-1, 1.5, '60', true]) {
    assert.equal((await control.refusal('limits.set', { id, clientRpm })).errors[0].path, 'clientRpm');
  }
  assert.equal((await control.refusal('limits.get', { id: 'nope' })).code, 'app_not_found');
});

test('maintenance is set field by field; the host gets the page only while it is on', async () => {
  const { id } = await control.create('maintained');
  assert.deepEqual(await control.call('maintenance.get', { id }), { enabled: false, html: null });
  const sent = () => control.host.wanted.get(id)!.maintenance;
  assert.equal(sent(), undefined);
  const patched = await control.api('PATCH', `/v1/apps/${id}/maintenance`, { enabled: true });
  assert.deepEqual(patched.body, { enabled: true, html: null });
  assert.deepEqual(sent(), { html: null });
  assert.equal((await control.call('apps.get', { id })).maintenance, true);
  const html = '<h1>Back at noon</h1>';
  assert.deepEqual(await control.call('maintenance.set', { id, html }), { enabled: true, html });
  assert.deepEqual(sent(), { html });
  assert.deepEqual(await control.call('maintenance.set', { id, enabled: false }), { enabled: false, html });
  assert.equal(sent(), undefined);
  assert.deepEqual((await control.api('GET', `/v1/apps/${id}/maintenance`)).body, { enabled: false, html });
  assert.deepEqual(await control.call('maintenance.set', { id, html: null }), { enabled: false, html: null });
  const { items: changes } = await control.call('audit.list', { operation: 'maintenance.set' });
  assert.deepEqual(
    changes.slice(0, 2).map(({ details }: AuditEntry) => details),
    [{}, { enabled: 'false' }],
  );

  const largest = 'ü'.repeat(32 * 1024);
  assert.equal((await control.call('maintenance.set', { id, html: largest })).html, largest);
  for (const wrong of [`${largest}.`, '', ' ', '<p>\0', 1]) {
    assert.equal((await control.refusal('maintenance.set', { id, html: wrong })).errors[0].path, 'html');
  }
  assert.equal((await control.refusal('maintenance.set', { id, enabled: 'yes' })).errors[0].path, 'enabled');
  for (const name of ['maintenance.get', 'maintenance.set'])
    assert.equal((await control.refusal(name, { id: 'nope' })).code, 'app_not_found');
});

test('location, build settings and the pushes that deploy are set field by field, and reach the host as stored', async () => {
  const { id } = await control.create('in-a-folder');
  const detected = {
    root_directory: null,
    install_command: null,
    build_command: null,
    release_command: null,
    output_directory: null,
  };
  const none = { ...detected, deploy_on: 'main' };
  assert.deepEqual(await control.call('builds.get', { id }), none);
  const set = await control.call('builds.set', { id, root_directory: './apps//web/', build_command: 'make' });
  assert.deepEqual(set, { ...none, root_directory: 'apps/web', build_command: 'make' });
  const { deploy_on: on, ...builds } = set;
  assert.deepEqual([control.host.wanted.get(id)!.builds, on], [builds, 'main']);
  const less = await control.call('builds.set', { id, build_command: null, output_directory: './' });
  assert.deepEqual(less, { ...none, root_directory: 'apps/web', output_directory: '.' });
  assert.deepEqual(await control.call('builds.get', { id }), less);
  const tags = await control.call('builds.set', { id, deploy_on: 'tags' });
  assert.deepEqual(tags, { ...less, deploy_on: 'tags' });
  assert.equal((await control.call('builds.set', { id, root_directory: null })).deploy_on, 'tags');
  assert.equal(control.host.wanted.get(id)!.deploy_on, 'tags');

  const released = await control.call('builds.set', { id, release_command: 'npm run migrate' });
  const { deploy_on: _, ...commands } = released;
  assert.deepEqual(commands, { ...detected, output_directory: '.', release_command: 'npm run migrate' });
  assert.deepEqual(control.host.wanted.get(id)!.builds, commands);

  const told = async (change: object) => {
    const { errors } = await control.refusal('builds.set', { id, ...change });
    return errors.map(({ path, message }: { path: string; message: string }) => `${path} ${message}`);
  };
  assert.match((await told({ deploy_on: 'never' }))[0], /^deploy_on .*main/);
  assert.deepEqual(await told({ root_directory: '/srv/app' }), [
    'root_directory must be relative to the root of the repository',
  ]);
  assert.deepEqual(await told({ output_directory: 'dist/../../other' }), [
    'output_directory must not have a part . or ..',
  ]);
  assert.deepEqual(await told({ root_directory: '' }), ['root_directory must name a folder, or be null']);
  assert.deepEqual(await told({ root_directory: 'a\0b' }), [
    'root_directory must not have control characters or backslashes',
  ]);
  assert.deepEqual(await told({ build_command: 'a\0b' }), ['build_command must not have a NUL character']);
  assert.deepEqual(await told({ release_command: '' }), ['release_command must be a command, or null']);
  assert.deepEqual(await told({ install_command: ' ' }), ['install_command must be a command, or null']);
  assert.match((await told({ install_command: '語'.repeat(1366) }))[0], /^install_command .* 4096 bytes/);
  assert.equal((await control.refusal('builds.get', { id: 'nope' })).code, 'app_not_found');
});

test('a renamed app keeps its id and data, its addresses change, and its old slug is free', async () => {
  const { id } = await control.create('before');
  await control.create('occupied');
  const renamed = await control.api('POST', `/v1/apps/${id}/rename`, { slug: 'afterwards' });
  assert.equal(renamed.status, 200);
  assert.deepEqual(
    [renamed.body.id, renamed.body.url, renamed.body.git_url],
    [id, 'http://afterwards.localhost:8787', 'http://git.localhost:8787/afterwards'],
  );
  assert.equal(control.host.wanted.get(id)!.slug, 'afterwards');
  const taken = await control.api('POST', `/v1/apps/${id}/rename`, { slug: 'occupied' });
  assert.deepEqual([taken.status, taken.body.code], [409, 'slug_taken']);
  assert.equal((await control.api('POST', `/v1/apps/${id}/rename`, { slug: 'git' })).status, 400);
  assert.equal((await control.api('POST', '/v1/apps/nope/rename', { slug: 'whatever' })).status, 404);
  await control.create('before');
});

test('a change that cannot reach the host is kept, answers 503, and is applied by reconcile', async () => {
  const { id } = await control.create('patient');
  control.host.failing = 500;
  const { status, body } = await control.api('POST', `/v1/apps/${id}/env`, { name: 'LATER', value: '1' });
  control.host.failing = null;
  assert.deepEqual([status, body.code], [503, 'host_unavailable']);
  assert.deepEqual(control.host.wanted.get(id)!.env, {});
  assert.equal((await control.internal('/internal/reconcile', {})).body.pushed, 1);
  assert.deepEqual(control.host.wanted.get(id)!.env, { LATER: '1' });
});

test('concurrent changes are all kept, and the host ends with the newest state', async () => {
  const { id } = await control.create('busy');
  const set = (n: number) => control.api('POST', `/v1/apps/${id}/env`, { name: `N${n}`, value: `${n}` });
  const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => set(n)));
  assert.ok(answers.every(({ status }) => status === 201));
  assert.equal(Object.keys(control.host.wanted.get(id)!.env).length, 12);
});

test('stats count the control plane’s records and include the host’s figures', async () => {
  const { apps, accounts, domains, deploys, host } = (await control.api('GET', '/v1/admin/stats')).body;
  assert.equal(apps.total, control.host.wanted.size);
  assert.equal(apps.by_status.created, apps.total);
  assert.deepEqual([accounts, deploys], [1, { total: 0, unfinished: 0 }]);
  assert.ok(domains >= 3);
  assert.deepEqual(host, HOST_STATS);
  control.host.failing = 500;
  assert.equal((await control.api('GET', '/v1/admin/stats')).body.host, null);
  control.host.failing = null;
});

test('overrides of variables have any JSON value, and the host is sent all of them', async () => {
  const { id } = await control.create('overrides');
  const set = async (name: string, value: unknown) => {
    const { updated_at, ...rest } = await control.call('vars.set', { id, name, value });
    assert.ok(!Number.isNaN(Date.parse(updated_at)));
    return rest;
  };
  const renewed = { in_effect: true, problem: null };
  assert.deepEqual(await set('LIMITS', { max: [5, null] }), {
    name: 'LIMITS',
    value: { max: [5, null] },
    ...renewed,
  });
  for (const value of ['', 'text', null, false, 0]) assert.equal((await set('ANY', value)).value, value);
  assert.deepEqual(control.host.wanted.get(id)!.vars, { ANY: 0, LIMITS: { max: [5, null] } });
  const { items } = await control.call('vars.list', { id });
  assert.deepEqual(
    items.map(({ name, value, override }: { name: string; value: unknown; override: object }) => [
      name,
      value,
      Object.hasOwn(override, 'updated_at'),
    ]),
    [
      ['ANY', 0, true],
      ['LIMITS', { max: [5, null] }, true],
    ],
  );
  assert.deepEqual(await control.call('vars.unset', { id, name: 'ANY' }), renewed);
  assert.deepEqual(control.host.wanted.get(id)!.vars, { LIMITS: { max: [5, null] } });
});

test('overrides that no Worker could have are refused, and more than 100', async () => {
  const { id } = await control.create('refused-overrides');
  const refusal = async (params: object) => {
    const { body } = await control.rpc({
      jsonrpc: '2.0',
      id: 1,
      method: 'vars.set',
      params: { id, ...params },
    });
    return [body.error?.data?.code, body.error?.data?.errors?.[0]?.path];
  };
  for (const name of ['', '1A', 'A-B', '__proto__', 'A'.repeat(129)])
    assert.deepEqual(await refusal({ name, value: 1 }), ['invalid_input', 'name'], name);
  for (const value of [undefined, 'x'.repeat(5_119)])
    assert.deepEqual(await refusal({ name: 'A', value }), ['invalid_input', 'value']);
  for (let n = 0; n < 100; n++) await control.call('vars.set', { id, name: `V${n}`, value: n });
  assert.deepEqual(await refusal({ name: 'MORE', value: 1 }), ['quota_exceeded', 'name']);
  assert.deepEqual(await refusal({ name: 'V7', value: 8 }), [undefined, undefined]);
  assert.equal(Object.keys(control.host.wanted.get(id)!.vars!).length, 100);
});

test('previews have overrides of their own, all of which are set at once', async () => {
  const { id } = await control.create('preview-overrides');
  await control.call('vars.set', { id, name: 'ADDRESS', value: 'real' });
  const vars = { ADDRESS: 'test', LIST: [1] };
  assert.deepEqual((await control.call('previews.set', { id, vars })).vars, vars);
  assert.deepEqual(control.host.wanted.get(id)!.previews!.vars, vars);
  assert.deepEqual((await control.call('previews.set', { id, branches: true })).vars, vars);
  assert.deepEqual((await control.call('previews.set', { id, vars: {} })).vars, {});
  assert.deepEqual(control.host.wanted.get(id)!.vars, { ADDRESS: 'real' });
});
