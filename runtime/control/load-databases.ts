// Loads the databases of the control plane from the bucket. Then their files are on this disk and can be read.
import { socketPath } from '../fleets/process/cell-directories.ts';
import { DATABASES } from './config.ts';
import { runQueries } from './run-queries.ts';

/** Loads the databases. @throws {Error} when the control plane's process does not run, or a query fails */
export async function loadDatabases(directory: string): Promise<void> {
  for (const { socket } of DATABASES)
    await runQueries(socketPath(directory, socket), [{ sql: 'SELECT count(*) FROM sqlite_schema' }]);
}
