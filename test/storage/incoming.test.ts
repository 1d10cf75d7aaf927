// Bodies of R2 objects that are written to files.
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeBody } from '../../runtime/storage/r2/bytes/incoming.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const MIB = 2 ** 20;

async function* pieces(count: number) {
  for (let n = 0; n < count; n++) yield Buffer.alloc(MIB);
}

test('a body fails with any of its syncs, because the system reports lost bytes only once', async (t) => {
  const handle = await open(join(temporaryDirectory(t), 'body'), 'w');
  t.after(() => handle.close());
  let syncs = 0;
  const sync = async () => {
    if (++syncs === 1) throw new Error('EIO');
  };
  await assert.rejects(writeBody(pieces(32), 32 * MIB, { handle, sync }, ['md5']), /EIO/);
});
