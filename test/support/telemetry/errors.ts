// The error store of telemetry's thread, for tests that call it directly.
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Errors, type ErrorsOptions } from '../../../runtime/telemetry/errors/errors.ts';
import { SourceStacks } from '../../../runtime/telemetry/errors/source-stacks.ts';
import type { ReportedError } from '../../../runtime/telemetry/logs/log-lines.ts';
import { Store } from '../../../runtime/telemetry/store/store.ts';
import { bytesInUse } from '../../../sqlite/telemetry/database.ts';
import { temporaryDirectory } from '../temporary.ts';

export const RELEASE = 'r1';
const REPORTED: ReportedError = {
  id: null,
  type: 'Error',
  message: 'no user',
  stack: null,
  mechanism: 'uncaught',
  handler: 'fetch',
  method: 'GET',
  path: '/users',
  untold: 0,
};

/** Two bytes per character, so that a test fails when characters are counted as bytes. */
export const large = { message: 'ä'.repeat(1_000), stack: 'ö'.repeat(4_000) };

class WatchedStore extends Store {
  /** Returns the bytes that the database uses. */
  inUse = () => 0;
  /** Makes every transaction fail that writes a group of this kind; null: writes succeed again. */
  refuse = (_kind: string | null): void => {};

  override open(...how: Parameters<Store['open']>) {
    const database = super.open(...how);
    this.inUse = () => bytesInUse(database);
    this.refuse = (kind) => {
      if (kind === null) database.exec('DROP TRIGGER refused');
      else
        database.exec(`CREATE TEMP TRIGGER refused BEFORE INSERT ON groups WHEN NEW.kind = '${kind}'
          BEGIN SELECT RAISE(ABORT, 'refused'); END`);
    };
    return database;
  }
}

/** Opens an error store with a new database. */
export function openErrors(
  t: TestContext,
  bounds: Partial<ErrorsOptions> = {},
  directory = temporaryDirectory(t),
) {
  const store = new WatchedStore(directory);
  t.after(() => store.close());
  const stacks = new SourceStacks(join(directory, 'releases'));
  const options = { retentionDays: 30, stacks, ...bounds };
  const errors = new Errors(store, options, () => ({ items: [], next: null }));
  /** Reports an error of an app, and waits until its stack is mapped to the sources. */
  const reportOne = (appId: string, given: Partial<ReportedError> = {}, release = RELEASE) => {
    const error = { ...REPORTED, ...given };
    errors.report({ appId, release, at: Date.now(), traceId: null, error });
    return errors.settled();
  };
  /** Reports errors of an app, each of a different kind, and writes them to the database. */
  const report = async (appId: string, kinds: number, given: Partial<ReportedError> = {}) => {
    for (let kind = 0; kind < kinds; kind++) await reportOne(appId, { type: `Kind${kind}`, ...given });
    errors.flush();
  };
  const list = async (appId: string, status: 'open' | 'resolved' | 'ignored' = 'open') =>
    (await errors.answers.errors!({ appId, status, limit: 400 })).items;
  const occurrences = async (appId: string) => {
    const groups = (
      await Promise.all((['open', 'resolved', 'ignored'] as const).map((of) => list(appId, of)))
    ).flat();
    const got = groups.map(({ fingerprint }) => errors.answers['errors/get']!({ appId, fingerprint }));
    return (await Promise.all(got)).map(({ occurrences }) => occurrences);
  };
  const bytesOf = async (appId: string) =>
    (await occurrences(appId)).flat().reduce((sum, each) => sum + Buffer.byteLength(JSON.stringify(each)), 0);
  return {
    errors,
    reportOne,
    report,
    list,
    occurrences,
    bytesOf,
    directory,
    inUse: () => store.inUse(),
    close: () => store.close(),
    refuse: store.refuse,
  };
}
