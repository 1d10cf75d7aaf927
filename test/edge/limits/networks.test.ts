import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cutAddress, visitorOf } from '../../../runtime/edge/limits/networks.ts';

test('an IPv4 address is one client in every notation', () => {
  assert.equal(visitorOf('192.0.2.1'), 0xc0000201);
  for (const text of ['::ffff:192.0.2.1', '::FFFF:192.0.2.1', '::ffff:c000:201', '0:0:0:0:0:ffff:c000:201'])
    assert.equal(visitorOf(text), 0xc0000201, text);
  assert.equal(visitorOf('255.255.255.255'), 2 ** 32 - 1);
});

test('the addresses of an IPv6 /64 are one client in every notation', () => {
  for (const text of [
    '2001:db8:0:7::',
    '2001:DB8::7:0:0:0:1',
    '2001:0db8:0000:0007:ffff:ffff:ffff:ffff',
    '2001:db8:0:7::1.2.3.4',
  ])
    assert.equal(visitorOf(text), '2001:db8:0:7', text);
  assert.equal(visitorOf('::1'), '0:0:0:0');
  assert.equal(visitorOf('::'), '0:0:0:0');
  assert.equal(visitorOf('1::'), '1:0:0:0');
});

test('an invalid address is a client by its text', () => {
  for (const text of [
    'unknown',
    '',
    '1.2.3',
    '1.2.3.256',
    '1.2.3.4.5',
    '1:2',
    ':::',
    '1::2::3',
    '12345::',
    'x::',
    '1:2:3:4:5:6:7:8:9',
    '::1.2.3',
  ])
    assert.equal(visitorOf(text), text, text);
});

test('addresses are truncated to /24 and /48', () => {
  assert.equal(cutAddress('192.0.2.177'), '192.0.2.0');
  assert.equal(cutAddress('::ffff:192.0.2.177'), '192.0.2.0');
  assert.equal(cutAddress('2001:db8:9:7::1'), '2001:db8:9::');
  assert.equal(cutAddress('2001:db8::1'), '2001:db8:0::');
  assert.equal(cutAddress('::1'), '0:0:0::');
  assert.equal(cutAddress('unknown'), 'unknown');
});
