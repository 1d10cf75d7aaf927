// How e-mail addresses of apps are normalised.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { normalMailAddress } from '../../../handlers/contract/incoming/mail-routes.ts';
import { cpuTime } from '../../support/cpu-time.ts';

test('an address is written in one way', () => {
  for (const [given, normal] of [
    ['Info@Shop.Example.com', 'info@shop.example.com'],
    ['*@shop.example.com', '*@shop.example.com'],
    ["o'neil+a.b@bücher.example", "o'neil+a.b@xn--bcher-kva.example"],
    ['shop.example.com', null],
    ['a b@shop.example.com', null],
    ['a@b@shop.example.com', null],
    ['a*@shop.example.com', null],
    ['.a@shop.example.com', null],
    ['a@https://shop.example.com', null],
    ['a\r\nRCPT TO:<b@c.example>@shop.example.com', null],
    ['@shop.example.com', null],
  ] as const)
    assert.equal(normalMailAddress(given), normal, given);
});

test('a long invalid address is refused in little time', () => {
  const spent = cpuTime();
  assert.equal(normalMailAddress(`${'a'.repeat(30)}(@shop.example.com`), null);
  assert.ok(spent() < 500, `${spent()} ms`);
});
