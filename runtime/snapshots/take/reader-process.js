// Prints the contents of requested files, one after another, as the user who owns them. An attacker who escaped the sandbox
// may have written the files. This process is ended when it takes too long or too much memory.
//
// It reads lines of JSON, `{"path", "kind"}`. For each it prints a line of JSON, `{"size"}`, `{"gone"}` or `{"error"}`,
// and then `size` bytes.
import { closeSync, constants, fstatSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { backup, DatabaseSync } from 'node:sqlite';

/** Maximum bytes of a database that is copied in memory. A larger one is copied to a file. */
const IN_MEMORY = 32 * 1024 * 1024;
const PIECE = 256 * 1024;
/** Bytes above which a file must not be sparse: reading it would take too long. */
const LARGE = 1024 * 1024 * 1024;
/** A file is sparse when less than this share of its size is on the disk. */
const SHARE = 1 / 16;
/** Bytes of a block, as `stat` counts them. */
const BLOCK = 512;
/** Pages in one step of a backup: all. A write between two steps would restart the backup. */
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

/** Whether the size of the current file has been printed. Then an error can no longer be printed, and ends the process. */
let sized = false;

function say(head) {
  sized = 'size' in head;
  print(Buffer.from(`${JSON.stringify(head)}\n`));
}

function requireFile(stat) {
  if (!stat.isFile()) throw new Error('it is not a file');
  const kept = stat.blocks * BLOCK;
  if (stat.size > LARGE && kept < stat.size * SHARE)
    throw new Error(`the file is sparse: only ${kept} of its ${stat.size} bytes are stored`);
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

/** Prints a consistent copy, made by SQLite itself. Writers do not wait for it. */
async function printDatabase(path) {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const stat = fstatSync(file);
  closeSync(file);
  requireFile(stat);
  // SQLite does not accept an empty file as a database.
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
