// Encodes and decodes a copy of an app's storage as one stream. For each file it has a line of JSON and then the file's
// bytes. The first line has the storage names, and the last line marks the end.
import { createReadStream, type Dirent } from 'node:fs';
import { mkdir, open, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FramedReader } from '../processes/framed-reader.ts';
import type { StorageNames } from './names.ts';

/** Maximum bytes of a line. The first line is the longest: it has the storage names, which the project chooses. */
const LINE_BYTES = 4 * 2 ** 20;
const PIECE_BYTES = 256 * 1024;
/** Folders of a copy, as in a snapshot. */
const FOLDERS = ['data', 'buckets'];

/** The target directory of each folder of a copy. */
export type CopyPlaces = Record<'data' | 'buckets', string>;

/** Yields a copy as a stream. @param directory has the files in `data` and `buckets`, which must not change meanwhile */
export async function* packCopy(directory: string, names: Partial<StorageNames>): AsyncGenerator<Buffer> {
  yield line({ names });
  for (const folder of FOLDERS)
    for (const path of await filesOf(join(directory, folder))) {
      const file = join(directory, path.slice(directory.length + 1));
      const { size } = await stat(file);
      yield line({ path: path.slice(directory.length + 1), bytes: size });
      if (size > 0) yield* createReadStream(file, { end: size - 1, highWaterMark: PIECE_BYTES });
    }
  yield line({ end: true });
}

/**
 * Writes the files of a copy below `places`. None of the files may exist.
 * @returns the storage names, and the number of files
 * @throws {Error} for a truncated stream, one that is not a copy, or an existing file
 */
export async function unpackCopy(
  stream: AsyncIterable<Buffer>,
  places: CopyPlaces,
): Promise<{ names: Partial<StorageNames>; files: number }> {
  const pieces = new FramedReader(stream, {
    lineBytes: LINE_BYTES,
    failure: (what) => new Error(`the copy ${what}`),
  });
  const { names } = JSON.parse(await pieces.line()) as { names?: Partial<StorageNames> };
  if (names === undefined) throw new Error('this is not a copy of an app');
  for (let files = 0; ; files++) {
    const { path, bytes, end } = JSON.parse(await pieces.line()) as {
      path?: string;
      bytes?: number;
      end?: boolean;
    };
    if (end === true) return { names, files };
    const [folder = '', ...below] = (path ?? '').split('/');
    if (!isFolder(folder) || below.length === 0 || below.some((part) => ['', '.', '..'].includes(part)))
      throw new Error(`the copy has a file with an invalid path, ${JSON.stringify(path)}`);
    const to = join(places[folder], ...below);
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    const file = await open(to, 'wx', 0o600);
    try {
      for await (const piece of pieces.bytes(bytes ?? 0)) await file.writeFile(piece);
    } finally {
      await file.close();
    }
  }
}

function isFolder(name: string): name is keyof CopyPlaces {
  return FOLDERS.includes(name);
}

function line(value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}

/** Returns the paths of all files below a directory; empty for a missing directory. */
async function filesOf(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(
    (error: NodeJS.ErrnoException): Dirent[] => {
      if (error.code === 'ENOENT') return [];
      throw error;
    },
  );
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
