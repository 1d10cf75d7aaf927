// The databases that the thread has open.
import { join } from 'node:path';
import type { Database } from 'better-sqlite3';
import { bytesOnDisk, giveBack, openTelemetryDatabase } from '../../../sqlite/telemetry/database.ts';

export class Store {
  readonly name = 'databases';
  readonly #directory: string;
  readonly #open = new Map<string, Database>();

  /** @param directory where the files lie; it is there */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Opens `<name>.sqlite`. @throws {Error} when a newer Cellar wrote it
   * @param migrations as of `openTelemetryDatabase`
   */
  open(name: string, migrations: readonly string[]): Database {
    const database = openTelemetryDatabase(join(this.#directory, `${name}.sqlite`), migrations);
    this.#open.set(name, database);
    return database;
  }

  /** Bytes of each database with its WAL. */
  sizes(): Record<string, number> {
    return Object.fromEntries([...this.#open].map(([name, database]) => [name, bytesOnDisk(database)]));
  }

  /** Gives a little of what was deleted back to the disk. */
  giveBack(): void {
    for (const database of this.#open.values()) giveBack(database);
  }

  close(): void {
    for (const database of this.#open.values()) database.close();
  }
}
