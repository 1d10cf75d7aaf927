import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineBatch } from '../../../runtime/builds/deploy/line-batch.ts';

test('lines are taken once, in order', () => {
  const batch = new LineBatch();
  assert.deepEqual(batch.take(), []);
  batch.add('one');
  batch.add('');
  batch.add('three');
  assert.deepEqual(batch.take(), ['one', '', 'three']);
  assert.deepEqual(batch.take(), []);
});

test('a full batch keeps the last lines and counts the others', () => {
  const batch = new LineBatch();
  for (let n = 0; n < 100_000; n++) batch.add(`line ${n}`);
  const [note, ...lines] = batch.take();
  assert.equal(lines.at(-1), 'line 99999');
  assert.equal(lines.at(0), `line ${100_000 - lines.length}`);
  assert.equal(
    note,
    `… (${100_000 - lines.length} lines are not shown here: they come faster than they are sent)`,
  );
  assert.ok(lines.join('').length <= 8 * 1024 && lines.length > 500);
  batch.add('next');
  assert.deepEqual(batch.take(), ['next']);
});

test('endless empty lines and one long line stay within the bounds', () => {
  const batch = new LineBatch();
  for (let n = 0; n < 1_000_000; n++) batch.add('');
  assert.ok(batch.take().length <= 8 * 1024 + 1);
  batch.add('before');
  batch.add('x'.repeat(50_000));
  assert.equal(batch.take().at(-1)!.length, 50_000);
});
