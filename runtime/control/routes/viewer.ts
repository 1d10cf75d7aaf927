// The files of the viewer of the API's reference, out of its package.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** The files that its page needs; a map of its sources is not among them. */
const FILES = ['swagger-ui-bundle.js', 'swagger-ui.css'];

const compress = promisify(gzip);
/** Files that were compressed already: half a MiB once somebody has opened the page. */
const compressed = new Map<string, Promise<Buffer>>();

/** A file of the viewer, compressed with gzip; null when the viewer has no such file. */
export async function viewerFile(name: string): Promise<Buffer | null> {
  if (!FILES.includes(name)) return null;
  const known = compressed.get(name) ?? read(name);
  compressed.set(name, known);
  return known;
}

async function read(name: string): Promise<Buffer> {
  const directory = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  return compress(await readFile(join(directory, name)));
}
