// Reads the texts of Cellar's own modules that run in an app's process.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A module of Cellar in an app's process. Beside the config, its file has the same name. */
export interface CellModule {
  name: string;
  text: string;
}

const hash = createHash('sha256');

/**
 * Returns a file's text, and adds it to `textsHash`. Call it only while modules load.
 * @param path from this folder, or a URL
 */
export function textOf(path: string): string {
  const text = readFileSync(new URL(path, import.meta.url), 'utf8');
  hash.update(text);
  return text;
}

/** Returns a hash of all texts that `textOf` has read. The cached files of an app's process depend on it. */
export function textsHash(): string {
  return hash.copy().digest('hex');
}
