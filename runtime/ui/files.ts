// The files of the control UI on the disk, as its server reads them: written once for each host, packed where that helps.
import { createHash } from 'node:crypto';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { bundleUiServer } from '../../bundler/handlers.ts';
import { bundleUi } from '../../bundler/ui.ts';
import { ENCODINGS, type Encoding, type UiFile, type UiFiles } from '../../handlers/contract/ui-files.ts';

/** From so many bytes on a file is packed. */
const PACKED_FROM = 512;
const PACKED_TYPES = /^(text\/|application\/(json|javascript|manifest\+json)|image\/svg\+xml)/;
/** Nine tenths of what the best would save, in a tenth of its time: somebody waits. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } };

const packers: Record<Encoding, (bytes: Uint8Array) => Promise<Buffer>> = {
  br: (bytes) => promisify(brotliCompress)(bytes, BROTLI),
  gzip: (bytes) => promisify(gzip)(bytes),
};

/** Where things are in the UI's directory. */
export const WORKER = 'worker.js';
export const FILES = 'files';

/**
 * Bundles the UI, and its server, into `directory`. No process may run on it.
 * @returns what the server serves
 * @throws {Error} esbuild's, with file and line
 */
export async function writeUi(directory: string): Promise<UiFiles> {
  const [worker, { files }] = await Promise.all([bundleUiServer(), bundleUi()]);
  const fresh = join(directory, `${FILES}.new`);
  await rm(fresh, { recursive: true, force: true });
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await writeFile(join(directory, WORKER), worker, { mode: 0o600 });
  const written = await Promise.all(files.map((file) => writePacked(fresh, file)));
  const target = join(directory, FILES);
  await rm(target, { recursive: true, force: true });
  await rename(fresh, target);
  return Object.fromEntries(written);
}

type Bundled = Awaited<ReturnType<typeof bundleUi>>['files'][number];

async function writePacked(
  root: string,
  { path, contents, type, immutable }: Bundled,
): Promise<[string, UiFile]> {
  const name = path.startsWith('/') ? path : `/${path}`;
  const bytes = Buffer.from(contents);
  const file = join(root, name);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeFile(file, bytes, { mode: 0o600 });
  const encodings: Encoding[] = [];
  if (bytes.length >= PACKED_FROM && PACKED_TYPES.test(type)) {
    for (const encoding of Object.keys(ENCODINGS) as Encoding[]) {
      await writeFile(file + ENCODINGS[encoding], await packers[encoding](bytes), { mode: 0o600 });
      encodings.push(encoding);
    }
  }
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
  return [name, { type, etag, immutable, encodings }];
}
