// Timeouts of a snapshot's reader process.
import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Listed } from '../../runtime/snapshots/take/listing.ts';
import { Reader } from '../../runtime/snapshots/take/reader.ts';
import { eventually, readers } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

/** Longer than any timeout of a reader. */
const LONG_MS = 60 * 60_000;
const BYTES = 5 * 2 ** 20;

async function readerOfOneFile(t: TestContext): Promise<{ reader: Reader; file: Listed; pid: number }> {
  const root = temporaryDirectory(t);
  writeFileSync(join(root, 'file'), Buffer.alloc(BYTES, 'x'));
  const { mode, size } = statSync(join(root, 'file'));
  const file: Listed = { path: 'file', kind: 'plain', mode, size, stamp: '' };
  // The reader of the previous test may still be ending.
  const others = readers(process.pid).map(({ pid }) => pid);
  const reader = await Reader.start({ root, user: null, copy: join(root, 'copy') });
  t.after(() => reader.end());
  const own = () => readers(process.pid).find(({ pid }) => !others.includes(pid));
  await eventually(() => own() !== undefined, 'the reader runs');
  return { reader, file, pid: own()!.pid };
}

test('a reader does not time out while its output is being stored, however long that takes', async (t) => {
  const { reader, file } = await readerOfOneFile(t);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  for (let n = 0; n < 2; n++) {
    let bytes = 0;
    for await (const piece of (await reader.read(file))!.content) {
      bytes += piece.length;
      // Stands for a slow upload of a pack.
      t.mock.timers.tick(LONG_MS);
    }
    assert.equal(bytes, BYTES);
  }
});

test('a silent reader times out, in the middle of a file too', async (t) => {
  const { reader, file, pid } = await readerOfOneFile(t);
  const { content } = (await reader.read(file))!;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  process.kill(pid, 'SIGSTOP');
  const rest = (async () => {
    for await (const _ of content);
  })();
  const ended = assert.rejects(rest, /the reader's output broke off before its end/);
  // The buffered output is read first: only then the timeout starts.
  for (let isOver = false; !isOver; ) {
    t.mock.timers.tick(LONG_MS);
    isOver = await Promise.race([
      ended.then(() => true),
      new Promise<false>((resolve) => setImmediate(resolve, false)),
    ]);
  }
});
