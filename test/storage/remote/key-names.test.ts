// How keys of R2 objects are encoded as names in a store.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeKey, encodeKey, nameBefore } from '../../../runtime/storage/r2/remote/key-names.ts';

const CHARACTERS = [
  ...Array.from({ length: 0x100 }, (_, code) => String.fromCharCode(code)),
  ...[
    '\u07ff',
    '\u0800',
    '\ud7ff',
    '\ue000',
    '\ufffc',
    '\ufffd',
    '\ufffe',
    '\uffff',
    '\u{10000}',
    '\u{10ffff}',
  ],
];
const bytewise = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Returns keys that end with each character. They begin empty, short, or about as long as a segment of a name. */
function keys(): string[] {
  const ends = ['', ...CHARACTERS, ...['!0', '.1', './', '~/', '~0', '//', '../', '%2e', 'é/', '/~', 'a~']];
  const starts = ['', 'a', ...[198, 199, 200, 201, 202].map((length) => 'x'.repeat(length))];
  return starts.flatMap((start) => ends.map((end) => start + end));
}

test('every key comes back from its name, and names have the order of keys', () => {
  const all = [...new Set(keys())].sort(bytewise);
  for (const key of all) assert.equal(decodeKey(encodeKey(key)), key, JSON.stringify(key));
  const names = all.map(encodeKey);
  assert.deepEqual(names, names.toSorted(bytewise));
});

test('the name of a prefix is a prefix of the names of its keys', () => {
  for (const key of keys())
    for (const more of ['', 'y', '/', '\u0000', '~', 'é', 'z'.repeat(300)])
      assert.ok(encodeKey(key + more).startsWith(encodeKey(key)), JSON.stringify(key + more));
});

test('names have only segments that stores, the proxy and file systems allow', () => {
  for (const key of [...keys(), '.', '..', '/', '//', 'a//b', 'a/../b', '%00', '\\', 'ж'.repeat(512), '']) {
    const name = `-${encodeKey(key)}`;
    assert.doesNotMatch(name, /[\p{Cc}\\%\ufffe\uffff]/u, JSON.stringify(key));
    for (const segment of name.split('/')) {
      assert.ok(segment !== '' && segment !== '.' && segment !== '..', JSON.stringify(key));
      assert.ok(Buffer.byteLength(segment) <= 210, segment);
    }
  }
  assert.equal(encodeKey('\ud800'), encodeKey('\ufffd'), 'half of a pair is no character');
});

test('all keys from one on follow the name before it', () => {
  const all = [...new Set(keys())].sort(bytewise);
  const froms = [...all.map((key) => Buffer.from(key)), ...all.map((key) => Buffer.from(`${key}\0`))];
  for (const from of froms.filter((_, n) => n % 7 === 0)) {
    const name = nameBefore(from);
    for (const key of all)
      if (Buffer.compare(Buffer.from(key), from) >= 0)
        assert.ok(
          name === null || bytewise(encodeKey(key), name) > 0,
          JSON.stringify([from.toString(), key]),
        );
  }
  assert.equal(nameBefore(Buffer.from('key\0')), encodeKey('key'));
  assert.equal(nameBefore(Buffer.from([0xff, 0xff])), null);
});
