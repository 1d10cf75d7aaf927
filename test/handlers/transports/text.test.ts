// Texts are truncated without splitting a character.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { byteLength, cutText } from '../../../handlers/contract/text.ts';
import { randomCases } from '../../support/random.ts';

test('a truncated text is cut between characters, marked and valid', () => {
  assert.equal(cutText('abc', 3, '…'), 'abc');
  assert.equal(cutText('abcd', 3, '…'), 'abc…');
  assert.equal(cutText('ab😀', 3), 'ab');
  assert.equal(cutText('ab😀', 4), 'ab😀');
  assert.equal(cutText('a\ud83d', 5), 'a\ufffd');
  assert.equal(cutText('a\ude00b', 2), 'a\ufffd');
});

test('for any text the result is a prefix within the limit, and valid', () => {
  const anyText = fc.string({ unit: 'binary' });
  fc.assert(
    fc.property(anyText, fc.nat(20), (text, length) => {
      const cut = cutText(text, length);
      assert.ok(cut.isWellFormed() && cut.length <= length && text.toWellFormed().startsWith(cut));
      assert.ok(cut.length >= Math.min(text.length, length) - 1);
    }),
    randomCases(),
  );
});

test('bytes are counted in UTF-8', () => assert.equal(byteLength('aé語😀'), 1 + 2 + 3 + 4));
