import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FrameScanner, restartFrame } from '../../../runtime/edge/http/body/frames.ts';
import { randomCases } from '../../support/random.ts';

/** A frame of `length` payload bytes that look like headers: a scanner that loses its place fails the test. */
function frame(opcode: number, length: number, masked: boolean): Buffer {
  const extended = length > 65_535 ? 8 : length > 125 ? 2 : 0;
  const header = Buffer.alloc(2 + extended + (masked ? 4 : 0));
  header[0] = 0x80 | opcode;
  header[1] = (extended === 8 ? 127 : extended === 2 ? 126 : length) | (masked ? 0x80 : 0);
  if (extended === 2) header.writeUInt16BE(length, 2);
  if (extended === 8) header.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([header, Buffer.alloc(length, 0x88)]);
}

const frames = fc.array(
  fc.record({
    opcode: fc.constantFrom(0, 1, 2, 9, 10),
    length: fc.oneof(fc.constantFrom(0, 1, 125, 126, 65_535, 65_536), fc.nat(300)),
    masked: fc.boolean(),
  }),
  { minLength: 1, maxLength: 6 },
);

test('exactly the ends of frames are found, however the bytes are split', () => {
  fc.assert(
    fc.property(frames, fc.array(fc.nat(70_000), { maxLength: 8 }), (specs, cuts) => {
      const whole = specs.map(({ opcode, length, masked }) => frame(opcode, length, masked));
      const bytes = Buffer.concat(whole);
      const ends: number[] = [];
      whole.reduce((at, { length }) => ends[ends.push(at + length) - 1]!, 0);
      const places = [...new Set(cuts.map((cut) => cut % bytes.length)), bytes.length].sort((a, b) => a - b);

      const scanner = new FrameScanner();
      const found: number[] = [];
      let from = 0;
      for (const place of places) {
        while (from < place) {
          from += scanner.scan(bytes.subarray(from, place), true);
          if (scanner.atBoundary) found.push(from);
        }
      }
      assert.deepEqual(found, ends);
      assert.equal(scanner.closed, false);

      const straight = new FrameScanner();
      assert.equal(straight.scan(bytes, false), bytes.length);
      assert.equal(straight.atBoundary, true);
    }),
    randomCases(),
  );
});

test('a close frame is recognized, and the generated one is valid', () => {
  const scanner = new FrameScanner();
  const frame = restartFrame();
  assert.equal(scanner.scan(frame, true), frame.length);
  assert.equal(scanner.closed, true);
  assert.equal(frame.readUInt16BE(2), 1012);
});
