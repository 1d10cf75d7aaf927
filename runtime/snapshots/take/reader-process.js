// Run by a process of the app's user: prints the contents of files that are asked for, one after another. What lies there may
// be the work of an attacker who got out of the sandbox. The host ends this process when it takes too long or too much memory.
//
// It reads lines of JSON, `{"path", "kind"}`, and prints for each a line of JSON, `{"size"}`, `{"gone"}` or `{"error"}`,
// and as many bytes as that says.
import { closeSync, constants, fstatSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { backup, DatabaseSync } from 'node:sqlite';

/** A database up to this size is copied in memory, and a larger one to a file. In bytes. */
const IN_MEMORY = 32 * 1024 * 1024;
const PIECE = 256 * 1024;
/** A file above this size, in bytes, of which the disk has less than this share, is made of holes to be read for ever. */
const LARGE = 1024 * 1024 * 1024;
const SHARE = 1 / 16;
/** Bytes of a block, as `stat` counts them. */
const BLOCK = 512;
/** Pages of one step: all. Between steps of a backup others may write, and it would begin again. */
const ALL_PAGES = 2 ** 31 - 1;

const { root, copy } = JSON.parse(process.argv[1]);

function print(bytes) {
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(1, bytes, done);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

/** Whether the size of the file that is asked for has been said: then there is no way back. */
let sized = false;

function say(head) {
  sized = 'size' in head;
  print(Buffer.from(`${JSON.stringify(head)}\n`));
}

function requireFile(stat) {
  if (!stat.isFile()) throw new Error('it is no file');
  const kept = stat.blocks * BLOCK;
  if (stat.size > LARGE && kept < stat.size * SHARE)
    throw new Error(`its ${stat.size} bytes are holes but for ${kept}`);
}

function printFile(path) {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(file);
    requireFile(stat);
    say({ size: stat.size });
    const piece = Buffer.alloc(PIECE);
    for (let left = stat.size; left > 0; ) {
      const read = readSync(file, piece, 0, Math.min(left, PIECE), null);
      if (read === 0) throw new Error('it became shorter');
      print(piece.subarray(0, read));
      left -= read;
    }
  } finally {
    closeSync(file);
  }
}

/** A copy as of one moment, made by SQLite itself. Whoever writes meanwhile does not wait for it. */
async function printDatabase(path) {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const stat = fstatSync(file);
  closeSync(file);
  requireFile(stat);
  // An empty one is none to SQLite.
  if (stat.size === 0 && wal(path) === 0) return say({ size: 0 });
  const database = new DatabaseSync(path, { readOnly: true, timeout: 10_000 });
  try {
    if (stat.size + wal(path) <= IN_MEMORY) {
      const bytes = database.serialize();
      say({ size: bytes.length });
      print(bytes);
    } else {
      await backup(database, copy, { rate: ALL_PAGES });
      printFile(copy);
    }
  } finally {
    database.close();
    for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(copy + suffix, { force: true });
  }
}

function wal(path) {
  try {
    const file = openSync(`${path}-wal`, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const { size } = fstatSync(file);
    closeSync(file);
    return size;
  } catch {
    return 0;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { path, kind } = JSON.parse(line);
  sized = false;
  try {
    if (kind === 'sqlite') await printDatabase(join(root, path));
    else printFile(join(root, path));
  } catch (error) {
    if (sized) process.exit(1);
    say(error.code === 'ENOENT' ? { gone: true } : { error: String(error.message).slice(0, 500) });
  }
}
