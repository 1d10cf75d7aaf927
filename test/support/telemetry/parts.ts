// Parts of telemetry's thread for tests that call them directly.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database } from 'better-sqlite3';
import type { ClientInfo } from '../../../runtime/edge/log/client-info.ts';
import type { RequestRecord } from '../../../runtime/edge/log/record.ts';
import type { Taken } from '../../../runtime/telemetry/part.ts';
import { Store } from '../../../runtime/telemetry/store/store.ts';
import { RequestLines, readRequests, requestLine } from '../../../runtime/telemetry/traces/request-lines.ts';
import { record } from './records.ts';

/** The app of `record`. */
export const APP = record().site;

/** Makes a temporary directory of databases, removed when it is disposed. `reopen` closes and opens them, as a restart does. */
export function temporaryStore(): Disposable & { directory: string; store: Store; reopen: () => Store } {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-telemetry-'));
  const files = {
    directory,
    store: new Store(directory),
    reopen: () => {
      files.store.close();
      files.store = new Store(directory);
      return files.store;
    },
    [Symbol.dispose]: () => {
      files.store.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  return files;
}

/** A store whose writes can be made to fail, as on a full disk. */
export class RefusingStore extends Store {
  readonly #open: Database[] = [];

  override open(...how: Parameters<Store['open']>): Database {
    const database = super.open(...how);
    this.#open.push(database);
    return database;
  }

  refuse(isRefused: boolean): void {
    for (const database of this.#open) database.pragma(`query_only = ${isRefused ? 'ON' : 'OFF'}`);
  }
}

/** Returns what the thread passes to its parts for these requests. */
export function taken(requests: Partial<RequestRecord & ClientInfo>[], rest: Partial<Taken> = {}): Taken {
  const handed = new RequestLines();
  for (const given of requests) handed.add(record(given), requestLine(record(given)));
  return {
    seq: 1,
    usage: [],
    output: [],
    said: [],
    failures: [],
    ...rest,
    requests: readRequests(handed.take()),
  };
}
