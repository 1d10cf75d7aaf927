// Writes the control UI's files to the disk for its server, with compressed variants of larger text files. Later starts
// reuse the files until the sources change.
import { createHash } from 'node:crypto';
import { access, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { ROOT_PAGES } from '../../bundler/modules/docs.ts';
import { bundleUiServer } from '../../bundler/modules/handlers.ts';
import { sourcesKey } from '../../bundler/modules/sources-key.ts';
import { type UiFile as BundledFile, bundleUi } from '../../bundler/modules/ui.ts';
import {
  ENCODINGS,
  type Encoding,
  type UiFile,
  type UiFiles,
} from '../../handlers/contract/host/ui-files.ts';

/** Minimum size of a compressed file, in bytes before compression. */
const PACKED_FROM = 512;
const PACKED_TYPES = /^(text\/|application\/(json|javascript|manifest\+json)|image\/svg\+xml)/;
/** Saves 90 % of what the best quality saves, in a tenth of its time. The first visitor waits for the compression. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } };

const packers: Record<Encoding, (bytes: Uint8Array) => Promise<Buffer>> = {
  br: (bytes) => promisify(brotliCompress)(bytes, BROTLI),
  gzip: (bytes) => promisify(gzip)(bytes),
};

/** Names of a file and a directory in the UI's directory. */
export const WORKER = 'worker.js';
export const FILES = 'files';

/** Describes the directory's contents. Written last and deleted first, so it never describes an incomplete directory. */
const KEPT = 'kept.json';
/** Folders with the sources of the bundles, and with the code that bundles them. */
const SOURCES = ['ui', 'client', 'handlers', 'sqlite', 'bundler', 'runtime/ui', 'docs'];

/** The content of `KEPT`: the written files, and the key of their sources. */
interface Kept {
  key: string;
  files: UiFiles;
}

/** The UI and its server, bundled. */
export interface Bundled {
  /** Hash of the sources. */
  key: string;
  /** Code of the server's module. */
  worker: string;
  files: BundledFile[];
}

/** Bundles the UI and its server. @throws {Error} esbuild's, with file and line */
export async function bundle(): Promise<Bundled> {
  const key = await sourcesKey(SOURCES, ROOT_PAGES);
  const [worker, { files }] = await Promise.all([bundleUiServer(), bundleUi()]);
  return { key, worker, files };
}

/**
 * Writes the UI and its server into `directory`, unless the directory has them already. No process may use it meanwhile.
 * @param bundled the bundles to write; null: bundles the current sources
 * @returns the files for the server
 * @throws {Error} esbuild's, with file and line
 */
export async function writeUi(directory: string, bundled: Bundled | null = null): Promise<UiFiles> {
  const key = bundled?.key ?? (await sourcesKey(SOURCES, ROOT_PAGES));
  const kept = await readKept(directory);
  if (kept?.key === key) return kept.files;
  const path = join(directory, KEPT);
  await rm(path, { force: true });
  const files = await writeInto(directory, bundled ?? (await bundle()));
  await writeFile(`${path}.new`, JSON.stringify({ key, files } satisfies Kept), { mode: 0o600 });
  await rename(`${path}.new`, path);
  return files;
}

/** Returns the content of `KEPT`; null when it is missing or invalid, or one of its files is missing. */
async function readKept(directory: string): Promise<Kept | null> {
  try {
    const kept: Kept = JSON.parse(await readFile(join(directory, KEPT), 'utf8'));
    const names = Object.entries(kept.files).flatMap(([name, { encodings }]) => [
      name,
      ...encodings.map((encoding) => name + ENCODINGS[encoding]),
    ]);
    const paths = [WORKER, ...names.map((name) => FILES + name)];
    await Promise.all(paths.map((path) => access(join(directory, path))));
    return kept;
  } catch {
    return null;
  }
}

async function writeInto(directory: string, { worker, files }: Bundled): Promise<UiFiles> {
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

async function writePacked(
  root: string,
  { path, contents, type, immutable }: BundledFile,
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
