// The texts of Cellar's own code in an app's process.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A module of Cellar beside the config. Its name is also its file's name. */
export interface CellModule {
  name: string;
  text: string;
}

const hash = createHash('sha256');

/** Returns a file's text, and adds it to `textsHash`: call it while modules load. @param path from this folder, or a URL */
export function textOf(path: string): string {
  const text = readFileSync(new URL(path, import.meta.url), 'utf8');
  hash.update(text);
  return text;
}

/** Returns a hash of all texts that `textOf` has read: the files of an app's process depend on them. */
export function textsHash(): string {
  return hash.copy().digest('hex');
}
