// Lists the Durable Objects in a directory of workerd. D1 databases, KV namespaces, queues and Workflows are Durable Objects
// too.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Objects } from './opening.ts';

const OBJECT = /^([0-9a-f]{64})\.sqlite$/;
/** The file of a namespace's alarms. */
export const METADATA = 'metadata.sqlite';
/** Files of SQLite beside a database, and files of a workerd cluster. */
const BESIDE = /\.sqlite(-wal|-shm|-journal|\.log)$|^\.cluster$/;

/** The data cannot be moved. Nothing has changed. */
export class Immovable extends Error {}

/**
 * Lists the ids of objects by the unique key of their namespace.
 * @param directory has a folder for each unique key
 * @throws {Immovable} when the directory has other files
 */
export function objectsIn(directory: string): Objects {
  if (!existsSync(directory)) return {};
  const keys = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return Object.fromEntries(
    keys.map(({ name: key }) => {
      const files = readdirSync(join(directory, key)).filter(
        (name) => name !== METADATA && !BESIDE.test(name),
      );
      const other = files.find((name) => !OBJECT.test(name));
      if (other !== undefined)
        throw new Immovable(
          `the app has data that cannot be moved, such as facets of objects: ${key}/${other}`,
        );
      return [key, files.map((name) => OBJECT.exec(name)![1]!)];
    }),
  );
}
