// Serves the viewer of the API reference from its npm package.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** The files that the viewer's page needs, without source maps. */
const FILES = ['swagger-ui-bundle.js', 'swagger-ui.css'];

const compress = promisify(gzip);
/** Cache of compressed files: half a MiB after the first use. */
const compressed = new Map<string, Promise<Buffer>>();

/** Returns a file of the viewer, compressed with gzip; null when the viewer has no such file. */
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
