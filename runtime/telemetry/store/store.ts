// The open databases of the telemetry thread.
import { join } from 'node:path';
import type { Database } from 'better-sqlite3';
import { bytesOnDisk, openTelemetryDatabase, returnFreePages } from '../../../sqlite/telemetry/database.ts';

export class Store {
  readonly name = 'databases';
  readonly #directory: string;
  readonly #open = new Map<string, Database>();

  /** @param directory the directory of the files; it must exist */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Opens `<name>.sqlite`. @throws {Error} when a newer Cellar wrote it
   * @param migrations see `openTelemetryDatabase`
   * @param isShared see `openTelemetryDatabase`
   */
  open(name: string, migrations: readonly string[], isShared = false): Database {
    const database = openTelemetryDatabase(join(this.#directory, `${name}.sqlite`), migrations, isShared);
    this.#open.set(name, database);
    return database;
  }

  /** Size of each database with its WAL, in bytes. */
  sizes(): Record<string, number> {
    return Object.fromEntries([...this.#open].map(([name, database]) => [name, bytesOnDisk(database)]));
  }

  /** Returns some free pages of each database to the disk. */
  giveBack(): void {
    for (const database of this.#open.values()) returnFreePages(database);
  }

  close(): void {
    for (const database of this.#open.values()) database.close();
  }
}
