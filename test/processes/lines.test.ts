import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LineReader, messageOf } from '../../runtime/processes/lines.ts';
import { randomCases } from '../support/random.ts';

function read(bytes: Buffer, cuts: number[]): string[] {
  const lines: string[] = [];
  const reader = new LineReader((line) => lines.push(line));
  let from = 0;
  for (const cut of [...cuts.map((at) => at % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)) {
    reader.write(bytes.subarray(from, cut));
    from = cut;
  }
  reader.end();
  return lines;
}

test('lines come out whole however their bytes are split into chunks', () => {
  const line = fc.string({ unit: 'grapheme' }).map((text) => `${text.replaceAll('\n', '')}.`);
  fc.assert(
    fc.property(fc.array(line, { minLength: 1 }), fc.array(fc.nat()), (lines, cuts) => {
      assert.deepEqual(read(Buffer.from(lines.join('\n')), cuts), lines);
    }),
    randomCases(),
  );
});

test('a line that is too long is cut between two characters, and the next one is whole', () => {
  for (const character of ['a', 'é', '€', '😀']) {
    for (const shift of ['', 'x', 'xx', 'xxx']) {
      const [long, next] = read(Buffer.from(`${shift}${character.repeat(70_000)}\nnext\n`), [65_536, 65_537]);
      assert.equal(next, 'next');
      assert.match(long!, new RegExp(`^${shift}(${character})+…$`, 'u'));
      const kept = Buffer.byteLength(long!) - Buffer.byteLength('…');
      assert.ok(kept <= 65_536 && kept > 65_536 - 4);
    }
  }
});

test("the text of a structured line is its message; any other line's is the line", () => {
  assert.equal(messageOf('{"level":"log","message":"a\\nb"}'), 'a\nb');
  for (const line of ['{"level":"log"}', 'null', '17', 'Fatal error', '{"message":1}']) {
    assert.equal(messageOf(line), line);
  }
});
