// Reads regular files of projects. A build may have put a pipe, which never ends, or a huge file in the place of one.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { BuildFailure } from '../failure.ts';
import { realInside, show } from './path-containment.ts';

const READING = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;

/**
 * Returns the bytes of a file in the project at `root` (a real path).
 * @throws {BuildFailure} when it does not exist, is a link that leaves the project, is not a regular file, or is larger
 * than `limitBytes`
 */
export function readProjectFile(root: string, path: string, limitBytes: number): Buffer {
  const bytes = readHead(root, path, limitBytes + 1);
  if (bytes.length <= limitBytes) return bytes;
  throw new BuildFailure(`${show(root, path)} has more than ${sizeText(limitBytes)}`);
}

/**
 * Returns the text of a JSON file, without the byte order mark that some editors write and `JSON.parse` refuses.
 * @throws {BuildFailure} as `readProjectFile` does
 */
export function readJsonText(root: string, path: string, limitBytes: number): string {
  return new TextDecoder().decode(readProjectFile(root, path, limitBytes));
}

/**
 * Returns the first `bytes` of a file, or all of a shorter one.
 * @throws {BuildFailure} as `readProjectFile` does
 */
export function readHead(root: string, path: string, bytes: number): Buffer {
  return readPart(root, path, bytes, () => 0);
}

/**
 * Returns the last `bytes` of a file, or all of a shorter one.
 * @throws {BuildFailure} as `readProjectFile` does
 */
export function readTail(root: string, path: string, bytes: number): Buffer {
  return readPart(root, path, bytes, (size) => Math.max(0, size - bytes));
}

/** Returns at most `bytes` of a file. @param startOf takes the file's size, and returns the position of the first byte to read */
function readPart(root: string, path: string, bytes: number, startOf: (size: number) => number): Buffer {
  const real = realInside(root, path);
  if (real === null)
    throw new BuildFailure(`${show(root, path)} is missing, or a link that leaves the project`);
  let file: number;
  try {
    file = openSync(real, READING);
  } catch (error) {
    throw new BuildFailure(`${show(root, path)} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
  try {
    const stats = fstatSync(file);
    if (!stats.isFile()) throw new BuildFailure(`${show(root, path)} is not a file`);
    const buffer = Buffer.alloc(Math.min(bytes, stats.size));
    const start = startOf(stats.size);
    let length = 0;
    while (length < buffer.length) {
      const read = readSync(file, buffer, length, buffer.length - length, start + length);
      if (read === 0) break;
      length += read;
    }
    return buffer.subarray(0, length);
  } finally {
    closeSync(file);
  }
}

function sizeText(bytes: number): string {
  return bytes % 2 ** 20 === 0 ? `${bytes / 2 ** 20} MiB` : `${bytes / 1024} KiB`;
}
