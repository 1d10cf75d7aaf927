// Temporary directories for tests.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

/** Makes a directory that is removed when the test ends. Its path is short enough for unix sockets below it. */
export function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
