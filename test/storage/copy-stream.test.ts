// A copy of an app's storage arrives unchanged or not at all.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { packCopy, unpackCopy } from '../../runtime/storage/copy-stream.ts';
import { temporaryDirectory } from '../support/temporary.ts';

async function* pieces(all: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < all.length; at += size) yield all.subarray(at, at + size);
}

test('files of any size and name arrive, however the stream is split', async (t) => {
  const from = temporaryDirectory(t);
  const files = {
    'data/do/a b/ü\n.sqlite': 'x'.repeat(300_000),
    'data/empty': '',
    'buckets/b/1': '{"path":\n',
  };
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(from, path)), { recursive: true });
    writeFileSync(join(from, path), text);
  }
  const names = { databases: { people: '0f' } };
  const packed: Buffer[] = [];
  for await (const piece of packCopy(from, names)) packed.push(piece);
  const all = Buffer.concat(packed);
  for (const size of [7, 1_000_000]) {
    const to = temporaryDirectory(t);
    const places = { data: join(to, 'own', 'data'), buckets: join(to, 'own', 'buckets') };
    assert.deepEqual(await unpackCopy(pieces(all, size), places), { names, files: 3 });
    for (const [path, text] of Object.entries(files))
      assert.equal(readFileSync(join(to, 'own', path), 'utf8'), text);
  }
});

test('a copy that breaks off or names a path outside its directory is refused', async (t) => {
  const to = temporaryDirectory(t);
  const places = { data: join(to, 'data'), buckets: join(to, 'buckets') };
  const unpack = (text: string) => unpackCopy(pieces(Buffer.from(text), 5), places);
  await assert.rejects(unpack('{"names":{}}\n'), /broke off/);
  await assert.rejects(unpack('{"names":{}}\n{"path":"data/a","bytes":9}\nabc'), /broke off/);
  await assert.rejects(unpack('{"error":"no"}\n'), /not a copy/);
  for (const path of ['data/../../a', '/etc/a', 'run/a', 'data'])
    await assert.rejects(unpack(`{"names":{}}\n{"path":"${path}","bytes":0}\n`), /invalid path/);
});
