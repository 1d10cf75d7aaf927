// Locations of addresses, from databases in MaxMind's format.
import assert from 'node:assert/strict';
import { renameSync, utimesSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { Geo } from '../../../runtime/edge/log/geo.ts';
import { mmdb } from '../../support/edge/mmdb.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const CITY = {
  country: { iso_code: 'DE', is_in_european_union: true },
  continent: { code: 'EU' },
  city: { names: { de: 'Köln', en: 'Köln' } },
  subdivisions: [{ iso_code: 'NW', names: { en: 'North Rhine-Westphalia' } }],
  postal: { code: '50667' },
  location: { latitude: 50.9375, longitude: 6.9603, time_zone: 'Europe/Berlin' },
};

test('an address is looked up in all databases, and the result is ASCII', async (t) => {
  const root = temporaryDirectory(t);
  const [cities, networks] = [`${root}/city.mmdb`, `${root}/asn.mmdb`];
  writeFileSync(cities, mmdb({ '203.0.113.0/24': CITY, '198.51.100.7/32': { country: { iso_code: 'FR' } } }));
  writeFileSync(
    networks,
    mmdb({ '203.0.0.0/16': { autonomous_system_number: 64_500, autonomous_system_organization: 'Example' } }),
  );
  const geo = new Geo([cities, `${root}/missing.mmdb`, networks]);
  t.after(() => geo.close());
  assert.equal(geo.locate('203.0.113.9'), '', 'nothing is read yet');
  await geo.look();
  const located = geo.locate('203.0.113.9');
  assert.match(located, /^[\x20-\x7e]+$/);
  assert.deepEqual(JSON.parse(`{${located}}`), {
    ...{ country: 'DE', isEUCountry: '1', continent: 'EU', city: 'Köln', region: 'North Rhine-Westphalia' },
    ...{ regionCode: 'NW', postalCode: '50667', latitude: '50.9375', longitude: '6.9603' },
    ...{ timezone: 'Europe/Berlin', asn: 64_500, asOrganization: 'Example' },
  });
  assert.equal(geo.locate('198.51.100.7'), '"country":"FR"');
  for (const unknown of ['198.51.100.8', '2001:db8::1', 'nonsense', ''])
    assert.equal(geo.locate(unknown), '');
});

test('each database that cannot be read is logged, with the setting that names it', async (t) => {
  const root = temporaryDirectory(t);
  writeFileSync(`${root}/city.mmdb`, 'no database');
  const geo = new Geo([`${root}/city.mmdb`, `${root}/asn.mmdb`]);
  t.after(() => geo.close());
  const lines: string[] = [];
  const output = t.mock.method(process.stdout, 'write', (text: string) => {
    if (text.includes(' a database ')) lines.push(text);
    return true;
  });
  await geo.look();
  output.mock.restore();
  assert.equal(lines.length, 2);
  assert.match(lines[0]!, / a database of RUNNER_GEOIP_DB could not be read path=\S+\/city\.mmdb error=/);
  assert.match(
    lines[1]!,
    / a database of RUNNER_GEOIP_DB could not be read path=\S+\/asn\.mmdb error="ENOENT/,
  );
});

test('a changed database is read again, and a damaged one leaves the previous one', async (t) => {
  const root = temporaryDirectory(t);
  const path = `${root}/city.mmdb`;
  const write = (bytes: Buffer | string, at: number) => {
    writeFileSync(`${path}.new`, bytes);
    utimesSync(`${path}.new`, at, at);
    renameSync(`${path}.new`, path);
  };
  write(mmdb({ '203.0.113.0/24': CITY }), 1_000);
  const geo = new Geo([path]);
  t.after(() => geo.close());
  await geo.look();
  assert.match(geo.locate('203.0.113.9'), /"DE"/);
  write(mmdb({ '203.0.113.0/24': { country: { iso_code: 'AT' } } }), 2_000);
  await geo.look();
  assert.equal(geo.locate('203.0.113.9'), '"country":"AT"');
  write('no database', 3_000);
  await geo.look();
  assert.equal(geo.locate('203.0.113.9'), '"country":"AT"');
});
