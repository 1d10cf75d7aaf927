// Chunked bodies, split at any place.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ChunkReader } from '../../../runtime/edge/http/body/chunks.ts';
import { randomCases } from '../../support/random.ts';

/** Returns the data of the chunks in `pieces`, whether they ended, and the bytes `left` after them; null for invalid chunks. */
function read(pieces: Buffer[]): { text: string; done: boolean; left: number } | null {
  const reader = new ChunkReader();
  let text = '';
  let left = 0;
  for (const piece of pieces) {
    const data: Buffer[] = [];
    const taken = reader.read(piece, data);
    if (taken === -1) return null;
    for (const part of data) text += part.toString('latin1');
    left += piece.length - taken;
  }
  return { text, done: reader.done, left };
}

function cut(text: string, cuts: number[]): Buffer[] {
  const places = [0, ...cuts.map((at) => at % text.length).toSorted((a, b) => a - b), text.length];
  return places.slice(1).map((end, i) => Buffer.from(text.slice(places[i], end), 'latin1'));
}

const chunk = fc.record({
  data: fc.oneof(
    fc.string({ minLength: 1, maxLength: 5, unit: 'binary-ascii' }),
    fc.integer({ min: 200, max: 400 }).map((length) => 'y'.repeat(length)),
  ),
  isUpper: fc.boolean(),
  zeros: fc.constantFrom('', '', '', '0', '0000000000'),
  extension: fc.constantFrom('', '', '', ';a', ';a=b', ';a="b c"'),
});

test('chunks carry the same data however they are split', () => {
  fc.assert(
    fc.property(fc.array(chunk), fc.array(fc.nat(), { maxLength: 8 }), (chunks, cuts) => {
      const encoded = chunks.map(({ data, isUpper, zeros, extension }) => {
        const size = `${zeros}${data.length.toString(16)}`.slice(-12);
        return `${isUpper ? size.toUpperCase() : size}${extension}\r\n${data}\r\n`;
      });
      const expected = chunks.map(({ data }) => data).join('');
      const body = `${encoded.join('')}0\r\nX-Trailer: 1\r\n\r\n`;
      assert.deepEqual(read(cut(`${body}next`, cuts)), { text: expected, done: true, left: 4 });
    }),
    randomCases(500),
  );
});

test('invalid chunks are found however they are split', () => {
  const wrong = [
    'g\r\n',
    '\r\n',
    '1\rx',
    '1\n',
    '1\r\nxx',
    '1\r\nx\rx',
    '1 \r\n',
    'fffffffffffff\r\n',
    '-1\r\n',
  ];
  for (const text of wrong) {
    for (let at = 0; at < text.length; at++) {
      assert.equal(
        read([Buffer.from(text.slice(0, at)), Buffer.from(`${text.slice(at)}zz\r\n`)]),
        null,
        text,
      );
    }
  }
});

test('many tiny chunks that arrive together are forwarded as one piece', () => {
  const pieces: Buffer[] = [];
  const bytes = Buffer.from('1\r\nx\r\n'.repeat(10_000));
  assert.equal(new ChunkReader().read(bytes, pieces), bytes.length);
  assert.equal(pieces.length, 1);
  assert.equal(pieces[0]!.toString(), 'x'.repeat(10_000));
});
