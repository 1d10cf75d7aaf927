// Copies of error groups without their occurrences: an object has the groups of a range of ids.
import type { Database } from 'better-sqlite3';
import { type CopyQueries, copyQueries } from '../../../sqlite/telemetry/copies.ts';
import type { CopiedGroup, ErrorQueries } from '../../../sqlite/telemetry/errors.ts';
import type { CopiedRow } from '../copies/content.ts';
import type { CopySource } from '../copies/source.ts';

/** Number of ids in an object's range. */
const IDS = 250;

export class ErrorCopies implements CopySource {
  readonly table = 'errors/';
  readonly folder: string;
  readonly copies: CopyQueries;
  readonly #queries: ErrorQueries;
  readonly #add: (groups: CopiedGroup[]) => void;
  /** The table's state (its last change and number of groups) when all of it was last copied. */
  #copiedState = '';
  /** The table's state at the last call of `changed`. */
  #state = '';

  /**
   * @param root the folder of the host's copies
   * @param add adds groups to the table, in a transaction
   */
  constructor(database: Database, root: string, queries: ErrorQueries, add: (groups: CopiedGroup[]) => void) {
    this.folder = `${root}${this.table}`;
    this.copies = copyQueries(database);
    this.#queries = queries;
    this.#add = add;
  }

  changed(): string[] {
    this.#state = `${this.#queries.lastChange()} ${this.#queries.countAll()}`;
    if (this.#state === this.#copiedState) return [];
    const folders = this.copies.names(this.folder).map((name) => name.slice(0, name.lastIndexOf('/') + 1));
    for (const range of this.#queries.ranges(IDS)) folders.push(`${this.folder}${range}/`);
    return [...new Set(folders)];
  }

  parts(folder: string): CopiedRow[][] {
    const first = Number(folder.slice(this.folder.length, -1)) * IDS;
    const groups = this.#queries.copied(first, first + IDS);
    return groups.length === 0 ? [] : [groups.map((group) => ({ ...group }))];
  }

  copied(): void {
    this.#copiedState = this.#state;
  }

  has(name: string): boolean {
    return name.startsWith(this.folder) && /^\d{1,12}\/\d+\.json\.gz$/.test(name.slice(this.folder.length));
  }

  isOld(): boolean {
    return false;
  }

  take(name: string, rows: CopiedRow[], hash: string): void {
    this.copies.transaction(() => {
      this.#add(rows as unknown as CopiedGroup[]);
      this.copies.save(name, hash);
    });
  }
}
