import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TrustedProxies } from '../../runtime/edge/client.ts';
import { plainAddress } from '../../runtime/isolation/address-ranges.ts';

test('the client is the last address in X-Forwarded-For that is not a trusted proxy', () => {
  const proxies = new TrustedProxies(['10.0.0.0/8', '2001:db8::/32', '192.0.2.7']);
  const cases: [string | undefined, string][] = [
    [undefined, '10.0.0.1'],
    ['203.0.113.9', '203.0.113.9'],
    ['6.6.6.6, 203.0.113.9', '203.0.113.9'],
    ['6.6.6.6, 203.0.113.9, 10.2.3.4', '203.0.113.9'],
    ['6.6.6.6,203.0.113.9:4711 , [2001:db8::1]:80', '203.0.113.9'],
    ['10.9.9.9, 10.2.3.4', '10.9.9.9'],
    ['6.6.6.6, unknown', '10.0.0.1'],
    ['', '10.0.0.1'],
  ];
  for (const [header, client] of cases)
    assert.equal(proxies.client(header, '10.0.0.1'), client, header ?? 'none');
});

test('ranges contain the right IPv4 and IPv6 addresses', () => {
  const proxies = new TrustedProxies(['10.0.0.0/8', '::1', '192.0.2.7']);
  for (const address of ['10.255.0.1', '::1', '192.0.2.7']) assert.equal(proxies.has(address), true, address);
  for (const address of ['11.0.0.1', '::2', '192.0.2.8', 'unknown'])
    assert.equal(proxies.has(address), false, address);
  assert.equal(new TrustedProxies([]).has('127.0.0.1'), false);
});

test('the error for an invalid range names it', () => {
  for (const range of ['10.0.0.0/33', 'localhost', '10.0.0.0/', '::/129', '1.2.3.4/8/8', ''])
    assert.throws(
      () => new TrustedProxies([range]),
      { name: 'TypeError', message: new RegExp(`'${range}'`) },
      range,
    );
});

test('an address is parsed from an IPv6 mapping, brackets, a zone and a port', () => {
  assert.equal(plainAddress('::ffff:192.0.2.1'), '192.0.2.1');
  assert.equal(plainAddress('192.0.2.1:80'), '192.0.2.1');
  assert.equal(plainAddress('[2001:db8::1]:80'), '2001:db8::1');
  assert.equal(plainAddress('fe80::1%eth0'), 'fe80::1');
});
