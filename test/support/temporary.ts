// Temporary directories for tests.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

const made: string[] = [];
const remove = (directory: string) => rmSync(directory, { recursive: true, force: true });

// Hooks run in the order of their registration. So a process may end after its directory was removed, and write there.
process.once('exit', () => made.forEach(remove));

/** Makes a directory that is removed when the test ends. Its path is short enough for unix sockets below it. */
export function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-'));
  made.push(directory);
  t.after(() => remove(directory));
  return directory;
}
