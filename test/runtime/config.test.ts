import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError, portTaken, readConfig, shownSettings, unknownSettings } from '../../runtime/config.ts';

const refused = (environment: Record<string, string>): string[] => {
  try {
    readConfig(environment);
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    return error.message.split('\n');
  }
  return [];
};

test('an empty environment gives the defaults', () => {
  const config = readConfig({});
  assert.equal(config.RUNNER_PORT, 8080);
  assert.equal(config.RUNNER_EDGE_PORT, 8787);
  assert.equal(config.RUNNER_BASE_DOMAIN, 'localhost');
  assert.ok(config.RUNNER_DATA_DIR.endsWith('/.cellar'));
});

test('trusted proxies are a list of addresses and ranges', () => {
  const { RUNNER_TRUSTED_PROXIES } = readConfig({ RUNNER_TRUSTED_PROXIES: '10.0.0.0/8, ::1,' });
  assert.deepEqual(RUNNER_TRUSTED_PROXIES, ['10.0.0.0/8', '::1']);
  assert.deepEqual(readConfig({}).RUNNER_TRUSTED_PROXIES, []);
});

test('apps are in the bucket only where there is one', () => {
  assert.equal(readConfig({}).RUNNER_STORAGE, 'local');
  assert.deepEqual(refused({ RUNNER_STORAGE: 'bucket' }), [
    'RUNNER_BUCKET must be set when RUNNER_STORAGE is bucket',
  ]);
  const RUNNER_CLUSTER_KEY = '0aF1'.repeat(16);
  assert.equal(readConfig({ RUNNER_CLUSTER_KEY }).RUNNER_CLUSTER_KEY, RUNNER_CLUSTER_KEY);
});

test('sign-in by a provider needs its address, an id and a secret', () => {
  const RUNNER_OIDC_URL = 'https://id.example.com/realms/team';
  const client = { RUNNER_OIDC_CLIENT_ID: 'cellar', RUNNER_OIDC_CLIENT_SECRET: 'secret' };
  const discovery = `${RUNNER_OIDC_URL}/.well-known/openid-configuration`;
  for (const given of [RUNNER_OIDC_URL, `${RUNNER_OIDC_URL}/`, discovery])
    assert.equal(readConfig({ ...client, RUNNER_OIDC_URL: given }).RUNNER_OIDC_URL, discovery);
  assert.equal(readConfig({}).RUNNER_OIDC_URL, null);
  assert.deepEqual(readConfig({ RUNNER_OIDC_ROLES: 'a=b=admin, *=guest' }).RUNNER_OIDC_ROLES, [
    ['a=b', 'admin'],
    ['*', 'guest'],
  ]);
  assert.match(
    refused({ RUNNER_OIDC_URL })[0]!,
    /^RUNNER_OIDC_CLIENT_ID and RUNNER_OIDC_CLIENT_SECRET must be/,
  );
  for (const alone of [client, { RUNNER_OIDC_REQUIRED: 'on' }])
    assert.match(refused(alone)[0]!, /^RUNNER_OIDC_URL must be set/);
  const elsewhere = { ...client, RUNNER_OIDC_URL, RUNNER_UI_URL: 'https://ui.example.com' };
  assert.match(refused(elsewhere)[0]!, /^RUNNER_OIDC_URL must not be set when RUNNER_UI_URL is/);
});

test('an empty text means the default', () => {
  assert.equal(readConfig({ RUNNER_PORT: '' }).RUNNER_PORT, 8080);
});

test('every bad setting is named at once, with the fix', () => {
  const problems = refused({
    RUNNER_PORT: 'http',
    RUNNER_BASE_DOMAIN: 'https://x.org/',
    RUNNER_TOKEN: 'short',
  });
  assert.deepEqual(
    problems.map((line) => line.split(' ')[0]),
    ['RUNNER_PORT', 'RUNNER_BASE_DOMAIN', 'RUNNER_TOKEN'],
  );
  assert.match(problems[2]!, /openssl rand/);
});

for (const [name, value] of [
  ['RUNNER_OIDC_URL', 'id.example.com'],
  ['RUNNER_OIDC_URL', 'http://id.example.com'],
  ['RUNNER_OIDC_URL', 'https://me:secret@id.example.com'],
  ['RUNNER_OIDC_URL', 'https://id.example.com/?x'],
  ['RUNNER_OIDC_SCOPES', 'email'],
  ['RUNNER_OIDC_ROLES', 'admins'],
  ['RUNNER_OIDC_ROLES', 'admins=root'],
  ['RUNNER_OIDC_REQUIRED', 'yes'],
  ['RUNNER_TCP_PORTS', '80-90'],
  ['RUNNER_TCP_PORTS', '20000-19999'],
  ['RUNNER_TCP_PORTS', '20000-21000'],
  ['RUNNER_TCP_PORTS', '65000-65536'],
  ['RUNNER_TCP_PORTS', 'all'],
  ['RUNNER_PORT', '65536'],
  ['RUNNER_PORT', '-1'],
  ['RUNNER_PORT', '1e3'],
  ['RUNNER_DATA_DIR', `/${'x'.repeat(80)}`],
  ['RUNNER_BASE_DOMAIN', 'Example.org'],
  ['RUNNER_BASE_DOMAIN', 'example.org.'],
  ['RUNNER_PUBLIC_ORIGIN', 'https://example.org/path'],
  ['RUNNER_PUBLIC_ORIGIN', 'ftp://example.org'],
  ['RUNNER_TRUSTED_PROXIES', '10.0.0.0/33'],
  ['RUNNER_TRUSTED_PROXIES', 'localhost'],
  ['SERVICE_EDGE_RPM', '-1'],
  ['RUNNER_BUILD_TIMEOUT_S', '0'],
  ['RUNNER_STORAGE', 'disk'],
  ['RUNNER_BUCKET_PRICES', 'writes=4.50'],
  ['RUNNER_BUCKET_PRICES', 'writes=4.50,reads=free'],
  ['RUNNER_BUCKET_PRICES', 'writes=4.50,reads=1,writes=2'],
  ['RUNNER_BUCKET_PRICES', 'writes=-1,reads=1'],
  ['RUNNER_CLUSTER_KEY', 'a'.repeat(63)],
  ['RUNNER_CLUSTER_KEY', 'g'.repeat(64)],
] as const) {
  test(`${name}=${value.slice(0, 30)} is refused`, () => {
    const problems = refused({ [name]: value, RUNNER_TOKEN: 'x'.repeat(32) });
    assert.equal(problems.length, 1);
    assert.ok(problems[0]!.startsWith(name));
  });
}

test('off localhost a token must be set', () => {
  assert.match(refused({ RUNNER_BASE_DOMAIN: 'example.org' }).join(), /RUNNER_TOKEN must be set/);
  assert.deepEqual(refused({ RUNNER_BASE_DOMAIN: 'example.org', RUNNER_TOKEN: 'x'.repeat(32) }), []);
  assert.deepEqual(refused({ RUNNER_BASE_DOMAIN: 'apps.localhost' }), []);
});

test('settings that contradict each other are refused', () => {
  assert.match(refused({ RUNNER_PORT: '8787' }).join(), /^RUNNER_EDGE_PORT is the port of RUNNER_PORT too/);
  assert.deepEqual(refused({ RUNNER_PORT: '0', RUNNER_EDGE_PORT: '0' }), []);
  assert.match(
    refused({ RUNNER_EDGE_HTTP_PORT: '80' }).join(),
    /^RUNNER_EDGE_HTTP_PORT needs RUNNER_EDGE=caddy/,
  );
  assert.deepEqual(refused({ RUNNER_EDGE: 'caddy', RUNNER_EDGE_HTTP_PORT: '80' }), []);
});

/** The settings of a host among several. */
const at = (RUNNER_ADDRESS: string) => ({
  ...{ RUNNER_BUCKET: 's3://bucket', RUNNER_BUCKET_ACCESS_KEY: 'a', RUNNER_BUCKET_SECRET_KEY: 's' },
  ...{ RUNNER_BASE_DOMAIN: 'example.org', RUNNER_TOKEN: 'x'.repeat(32) },
  ...{ RUNNER_CLUSTER_KEY: '0aF1'.repeat(16), RUNNER_ADDRESS },
});

test('settings with the same port are refused, unless they are for different addresses', () => {
  const mail = { RUNNER_MAIL_PORT: '8800', RUNNER_TCP_PORTS: '8700-8900' };
  assert.deepEqual(refused({ RUNNER_MAIL_PORT: '8787' }), [
    'RUNNER_MAIL_PORT is the port of RUNNER_EDGE_PORT too; give each its own',
  ]);
  assert.deepEqual(refused(mail), [
    'RUNNER_TCP_PORTS has the port of RUNNER_EDGE_PORT too; give each its own',
    'RUNNER_TCP_PORTS has the port of RUNNER_MAIL_PORT too; give each its own',
  ]);
  // Hosts use the port after that of the address too.
  assert.deepEqual(refused(at('10.0.0.2:8786')), [
    'RUNNER_ADDRESS has the port of RUNNER_EDGE_PORT too; give each its own',
  ]);
  assert.deepEqual(refused({ ...mail, RUNNER_TCP_PORTS: '8800', ...at('10.0.0.2') }).length, 1);
  // The API listens on loopback only.
  assert.deepEqual(refused(at('10.0.0.2:8080')), []);
});

test('a port that is in use names its setting', () => {
  const taken = (port: number, environment = {}, address = '127.0.0.1') =>
    portTaken(
      Object.assign(new Error('in use'), { code: 'EADDRINUSE', port, address }),
      readConfig(environment),
    );
  assert.match(
    taken(8080)!,
    /^port 8080 is in use; stop the program that uses it, or set RUNNER_PORT to another$/,
  );
  assert.match(taken(8787)!, /set RUNNER_EDGE_PORT to another$/);
  assert.match(taken(8080, at('10.0.0.2:8080'), '10.0.0.2')!, /set RUNNER_ADDRESS to another$/);
  assert.equal(taken(4_000), 'port 4000 is in use; stop the program that uses it');
  assert.equal(portTaken(new Error('another'), readConfig({})), undefined);
});

test('names that look like settings but are unknown are reported', () => {
  assert.deepEqual(unknownSettings({ RUNNER_PROT: '1', RUNNER_PORT: '1', PATH: '/bin' }), ['RUNNER_PROT']);
});

test('each setting is shown with its source, and secrets are not shown', () => {
  const secrets = { RUNNER_TOKEN: 'x'.repeat(20), OTEL_EXPORTER_OTLP_HEADERS: 'a=xxxxxxxxxxxxxxxxxxxx' };
  const shown = shownSettings({ RUNNER_PORT: '9', ...secrets });
  const named = (name: string) => shown.find((each) => each.name === name)!;
  assert.deepEqual(
    [named('RUNNER_PORT').value, named('RUNNER_PORT').from, named('RUNNER_PORT').default],
    ['9', 'environment', '8080'],
  );
  assert.equal(named('RUNNER_EDGE_PORT').from, 'default');
  assert.doesNotMatch(JSON.stringify(shown), /xxxxxxxxxx/);
  for (const { name, secret } of shown)
    assert.equal(
      secret,
      /TOKEN|SECRET|PASSWORD|HEADERS|SMTP_URL|AI_KEY|CLUSTER_KEY|SNAPSHOT_KEY|BROWSER_URL/.test(name),
      `${name} is a secret or is not`,
    );
});
