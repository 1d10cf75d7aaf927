// Opens Durable Objects in batches, because each open object needs memory, and reads their files.
import { dirname, join } from 'node:path';
import type { User } from '../isolation/users.ts';
import { Reader } from '../snapshots/take/reader.ts';
import type { Opening } from './opening.ts';

const MOST = 64;
const MOST_BYTES = 64 * 2 ** 20;

export interface OpenedObject {
  key: string;
  id: string;
  /** Null when it is unknown, or the object has none. */
  name: string | null;
  /** About as many bytes as its database has. */
  bytes: number;
}

/** Opens objects. Calls `read` for each, with a reader of the directory of opened objects, and the object's path in it. */
export async function readOpened(
  opening: Opening,
  user: User | null,
  objects: readonly OpenedObject[],
  read: (reader: Reader, object: OpenedObject, path: string) => Promise<void>,
): Promise<void> {
  let reader: Reader | null = null;
  try {
    for (const batch of batchesOf(objects)) {
      const asked = Map.groupBy(batch, ({ key }) => key);
      await opening.open(
        Object.fromEntries([...asked].map(([key, own]) => [key, own.map(({ id, name }) => name ?? { id })])),
      );
      reader ??= await Reader.start({
        root: opening.directory,
        user,
        copy: join(dirname(opening.directory), 'copy'),
      });
      for (const object of batch) await read(reader, object, `${object.key}/${object.id}.sqlite`);
    }
  } finally {
    reader?.end();
  }
}

/** Divides items into batches, in their order. An item with more bytes than a batch may have gets a batch of its own. */
export function batchesOf<Item extends { bytes: number }>(items: readonly Item[]): Item[][] {
  const batches: Item[][] = [];
  let bytes = 0;
  for (const item of items) {
    const last = batches.at(-1);
    bytes += item.bytes;
    if (last !== undefined && last.length < MOST && bytes <= MOST_BYTES) {
      last.push(item);
      continue;
    }
    batches.push([item]);
    bytes = item.bytes;
  }
  return batches;
}
