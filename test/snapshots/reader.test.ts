// Timeouts of the processes of snapshots.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Jobs, type JobsOptions } from '../../runtime/snapshots/jobs.ts';
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
  const ended = assert.rejects(
    rest,
    /the reader's output broke off before its end: nothing came for 20\.\d+ s/,
  );
  // The buffered output is read first: only then the timeout starts.
  for (let isOver = false; !isOver; ) {
    t.mock.timers.tick(LONG_MS);
    isOver = await Promise.race([
      ended.then(() => true),
      new Promise<false>((resolve) => setImmediate(resolve, false)),
    ]);
  }
});

test('a job that takes too long fails with its timeout', async (t) => {
  const store = createServer(() => {});
  store.listen(0, '127.0.0.1');
  await once(store, 'listening');
  t.after(() => store.close());
  const endpoint = `http://127.0.0.1:${(store.address() as AddressInfo).port}`;
  const s3 = { endpoint, region: 'x', bucket: 'x', prefix: '', accessKey: 'x', secretKey: 'x' };
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const jobs = new Jobs({} as JobsOptions);
  const looked = jobs.run({ kind: 'look', store: { s3 }, until: null }, new AbortController().signal);
  const failed = assert.rejects(looked, /^Error: the process of snapshots took longer than 6 hours/);
  await once(store, 'connection');
  t.mock.timers.tick(6 * LONG_MS);
  await failed;
});
