// Where a domain leads, and what is told of its certificate. The lookups are answered here: a test has no network.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DomainChecks, type Lookups } from '../../runtime/edge/domain-checks.ts';
import { temporaryDirectory } from '../support/temporary.ts';

/** Of a.example, from an authority named so, for a hundred years. */
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

const nothing = () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }));

function lookups(ofName: Record<string, string[]>, others: Partial<Lookups> = {}): () => Lookups {
  return () => ({
    resolve4: (name) => (ofName[name] ? Promise.resolve(ofName[name]) : nothing()),
    resolve6: nothing,
    resolveCname: nothing,
    cancel: () => {},
    ...others,
  });
}

const checks = (options: Partial<ConstructorParameters<typeof DomainChecks>[0]>) =>
  new DomainChecks({
    baseDomain: 'cellar.example',
    certificates: null,
    ownAddresses: () => ['192.0.2.1'],
    ...options,
  });

test('a name leads here by an address of the machine or of the base domain, else elsewhere, nowhere, or nobody knows', async () => {
  const names = {
    'a.example': ['192.0.2.1'],
    'b.example': ['198.51.100.7', '203.0.113.5'],
    'c.example': ['198.51.100.9'],
    'cellar.example': ['203.0.113.5'],
  };
  const of = checks({ lookups: lookups(names) });
  const leads = async (name: string) => (await of.check(name))!.dns.leads;
  assert.deepEqual(await Promise.all(['a.example', 'b.example', 'c.example', 'd.example'].map(leads)), [
    'here',
    'here',
    'elsewhere',
    'none',
  ]);
  const timesOut = () => Promise.reject(Object.assign(new Error('late'), { code: 'ETIMEOUT' }));
  const silent = checks({ lookups: lookups({}, { resolve4: timesOut }) });
  const state = (await silent.check('a.example'))!;
  assert.deepEqual(state.dns, { leads: 'unknown', addresses: [], alias: null, machine: ['192.0.2.1'] });
  assert.equal(state.certificate.state, 'off');
});

test('only so many names are looked up at once', async () => {
  const { promise, resolve } = Promise.withResolvers<string[]>();
  const of = checks({ lookups: lookups({}, { resolve4: () => promise }) });
  const waiting = Array.from({ length: 8 }, () => of.check('a.example'));
  assert.equal(await of.check('a.example'), null);
  resolve(['192.0.2.1']);
  assert.ok((await Promise.all(waiting)).every((state) => state?.dns.leads === 'here'));
  assert.notEqual(await of.check('a.example'), null);
});

test("Caddy's certificate of a name is told with its end, and that there is none yet", async (t) => {
  const directory = temporaryDirectory(t);
  const of = checks({ lookups: lookups({}), certificates: directory });
  assert.equal((await of.check('a.example'))!.certificate.state, 'waiting');
  const place = join(directory, 'storage/certificates/acme/a.example');
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'a.example.crt'), CERTIFICATE);
  assert.deepEqual((await of.check('a.example'))!.certificate, {
    state: 'valid',
    until: '2126-10-29T07:44:06.000Z',
    issuer: 'An Authority',
  });
});
