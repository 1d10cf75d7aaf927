import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prefixes } from '../../runtime/sockets/prefixes.ts';

test('a prefix has the right bytes at any length, and a short one is the same object each time', () => {
  const prefixes = new Prefixes(8_192);
  for (const length of [0, 1, 2_048, 2_049, 8_192, 1]) {
    prefixes.buffer.fill(length % 251);
    const prefix = prefixes.of(length);
    assert.equal(prefix.length, length);
    assert.ok(prefix.every((byte) => byte === length % 251));
    assert.equal(prefix.byteOffset, prefixes.buffer.byteOffset);
    assert.equal(prefix === prefixes.of(length), length <= 2_048);
  }
});
