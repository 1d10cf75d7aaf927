// Checks of where a domain points, and of its certificate. The tests run their own DNS server.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { DomainChecks } from '../../runtime/edge/domain-checks.ts';
import { QueueFull } from '../../runtime/queues/fair-queue.ts';
import { NameServer, type Records } from '../support/edge/name-server.ts';
import { temporaryDirectory } from '../support/temporary.ts';

/** A certificate for a.example, valid for a hundred years, with its authority's name. */
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBrDCCAVOgAwIBAgIUY0tQ7/YiuqR5rYt/KsK5eMssQf0wCgYIKoZIzj0EAwIw
KzEVMBMGA1UECgwMQW4gQXV0aG9yaXR5MRIwEAYDVQQDDAlhLmV4YW1wbGUwIBcN
MjYxMTIyMDc0NDA2WhgPMjEyNjEwMjkwNzQ0MDZaMCsxFTATBgNVBAoMDEFuIEF1
dGhvcml0eTESMBAGA1UEAwwJYS5leGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEnj6ncDwbpZfuE2pFPqJ3cTT5R7FoLST0t0ERDS7oQ6J4ttu86fPL/8Ip
MWdEOMB1Erxxop6dvbfRySYkW62oKaNTMFEwHQYDVR0OBBYEFH5TYsAL7WA7xNsK
CNEBsrIaH/WLMB8GA1UdIwQYMBaAFH5TYsAL7WA7xNsKCNEBsrIaH/WLMA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgTa7W8ChakbYlFb0Og2YYmSz9
7Mz4vHBIHd4U7N1AzOsCIBH4VZM4P6eo1WyTLWuENb3VdH9q2GlbsmQ5vA1RAT5C
-----END CERTIFICATE-----`;

let server: NameServer;
before(async () => {
  server = await new NameServer().listen();
});
after(() => server.close());

const checks = (options: Partial<ConstructorParameters<typeof DomainChecks>[0]> = {}) =>
  new DomainChecks({
    baseDomain: 'cellar.example',
    certificates: null,
    lookups: () => server.resolver(),
    ownAddresses: () => ['192.0.2.1'],
    ...options,
  });

test('a name points here by an address of the machine or of the base domain, else elsewhere or nowhere, or is unknown', async () => {
  const names: Record<string, Records> = {
    'a.example': { A: ['192.0.2.1'] },
    'b.example': { A: ['198.51.100.7', '203.0.113.5'] },
    'c.example': { A: ['198.51.100.9'], TXT: ['not the proof'] },
    '_cellar.c.example': { TXT: ['one', 'x'.repeat(300)] },
    'cellar.example': { A: ['203.0.113.5'] },
    'silent.example': {},
  };
  for (const [name, records] of Object.entries(names)) server.names.set(name, records);
  const of = checks();
  const look = async (name: string) => (await of.lookUp(name, name)).dns;
  const found = await Promise.all(['a.example', 'b.example', 'c.example', 'd.example'].map(look));
  assert.deepEqual(
    found.map(({ leads }) => leads),
    ['here', 'here', 'elsewhere', 'none'],
  );
  assert.deepEqual(
    found.map(({ texts }) => texts),
    [[], [], ['one', 'x'.repeat(255)], []],
  );
  server.names.set('silent.example', null);
  const quick = checks({ lookups: () => server.resolver(100) });
  const state = await quick.lookUp('silent.example', 'a');
  assert.deepEqual(state.dns, {
    leads: 'unknown',
    addresses: [],
    alias: null,
    machine: ['192.0.2.1', '203.0.113.5'],
    texts: [],
  });
  assert.equal(state.certificate.state, 'off');
});

test('an account has a few lookups at once, gets an error above the limit, and does not delay other accounts', async () => {
  server.names.set('slow.example', null);
  server.names.set('fast.example', { A: ['192.0.2.1'] });
  const of = checks({ lookups: () => server.resolver(300) });
  const waiting = Array.from({ length: 4 }, () => of.lookUp('slow.example', 'one'));
  await assert.rejects(of.lookUp('fast.example', 'one'), QueueFull);
  assert.equal((await of.lookUp('fast.example', 'other')).dns.leads, 'here');
  assert.ok((await Promise.all(waiting)).every(({ dns }) => dns.leads === 'unknown'));
  assert.equal((await of.lookUp('fast.example', 'one')).dns.leads, 'here');
});

test("Caddy's certificate of a name is reported with its end date, and so is a missing one", async (t) => {
  const directory = temporaryDirectory(t);
  const of = checks({ certificates: directory });
  assert.equal((await of.lookUp('a.example', 'a')).certificate.state, 'waiting');
  const place = join(directory, 'storage/certificates/acme/a.example');
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'a.example.crt'), CERTIFICATE);
  assert.deepEqual((await of.lookUp('a.example', 'a')).certificate, {
    state: 'valid',
    until: '2126-10-29T07:44:06.000Z',
    issuer: 'An Authority',
  });
});
