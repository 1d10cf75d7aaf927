// A temporary directory for one test, removed at its end.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

/** Makes the directory; its path is short enough for Unix sockets below it. */
export function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
