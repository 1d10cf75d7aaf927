// Writes the first copy of a Durable Object in the bucket. workerd cannot import data, so this writes the files that a
// process of the cluster would have left there: one snapshot of the object's database. workerd makes its own snapshot when
// it opens the object. The layout is not documented: each object is opened afterwards, and compared with the original.
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';

/** Epoch (a number of workerd's cluster) of the first process that owns the object. `own.json` names the owner. */
const EPOCH = 1;
/** Number of the newest change by that process in the snapshot. */
const CHANGES = 3;

/** An object's database, and the object's folder in the bucket. */
export interface FirstCopy {
  path: string;
  /** Below the app's folder. */
  folder: string;
}

/** Writes the files of objects below a directory. Runs in a worker thread. */
export async function writeFirstCopies(copies: FirstCopy[], into: string): Promise<void> {
  for (const { path, folder } of copies) {
    const snapshot = join(into, folder, 'snapshot', descending(EPOCH), descending(CHANGES));
    await mkdir(dirname(snapshot), { recursive: true, mode: 0o700 });
    await writeFile(join(into, folder, 'own.json'), JSON.stringify({ node: '', epoch: EPOCH, from: EPOCH }));
    const { size } = await stat(path);
    await pipeline(
      withHeader(header(size), createReadStream(path)),
      createGzip({ level: 1 }),
      createWriteStream(snapshot, { mode: 0o600 }),
    );
  }
}

/** Writes a number as workerd does in names of the bucket: sorted names are in the order of their numbers. */
export function ascending(value: number): string {
  const digits = value.toString(16);
  return `${String.fromCharCode('a'.charCodeAt(0) + digits.length - 1)}${digits}`;
}

/** As `ascending`, but sorted names are in the reverse order. */
function descending(value: number): string {
  const digits = [...value.toString(16)].map((digit) => (15 - Number.parseInt(digit, 16)).toString(16));
  return `${String.fromCharCode('z'.charCodeAt(0) - digits.length + 1)}${digits.join('')}`;
}

/** Returns the Cap'n Proto message that comes before a database of `size` bytes in a snapshot. */
function header(size: number): Buffer {
  const words = Buffer.alloc(15 * 8);
  // One segment of 14 words. The root has 4 data words and 1 pointer.
  words.writeUInt32LE(14, 4);
  words.writeUInt16LE(4, 12);
  words.writeUInt16LE(1, 14);
  words.writeUInt32LE(EPOCH, 16);
  words.writeUInt32LE(CHANGES, 20);
  // Says that this is a snapshot.
  words.writeUInt32LE(1, 40);
  // A list of one file. Each file has 5 data words and 1 pointer.
  words.writeUInt32LE(1, 48);
  words.writeUInt32LE(0x37, 52);
  words.writeUInt32LE(4, 56);
  words.writeUInt16LE(5, 60);
  words.writeUInt16LE(1, 62);
  words.writeUInt32LE(1, 64);
  words.writeBigUInt64LE(BigInt(size), 72);
  // The file's name: three bytes with the final NUL.
  words.writeUInt32LE(1, 104);
  words.writeUInt32LE(0x1a, 108);
  words.write('db', 112);
  return words;
}

async function* withHeader(head: Buffer, content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield head;
  yield* content;
}
