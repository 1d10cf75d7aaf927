// Unpacks an upload, of Wrangler or of `cellar deploy --upload`, into a `Bundle`: modules, migrations and assets in a
// directory, the rest as data. The modules of an upload are already bundled. It runs in a worker thread.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, dirname, join, posix } from 'node:path';
import { init, parse } from 'es-module-lexer';
import { classMigrations } from '../bindings/classes.ts';
import { requireBundleSize } from '../bundle-size-limit.ts';
import { newestCompatibilityDate, supportedDate } from '../configuration/compatibility-date.ts';
import { BuildFailure } from '../failure.ts';
import { MAX_ENTRIES, MODULE_BYTES } from '../limits.ts';
import { type Bundle, FEWER_PAGES, type Module, PREFILL, RELEASE_FILE, type Release } from '../release.ts';
import { syncTree } from '../sync.ts';
import { SITE_NAMESPACE } from '../workers-site/manifest.ts';
import { placeAssets } from './assets.ts';
import { bindingsOf, type LiveBindings } from './bindings.ts';
import { checkSentBundle } from './bundle.ts';
import { type Metadata, readMetadata } from './metadata.ts';
import { hasSite, placeSite, siteKeys } from './site.ts';

const MODULES = 'modules';
/** Folders of the files that `cellar deploy --upload` sends. */
const SENT_FOLDERS = [MODULES, 'migrations', PREFILL];
const METADATA = 'metadata';
/** Maximum bytes of the metadata: a bundle's description, with the values of secrets. */
const METADATA_BYTES = 4 * 2 ** 20;
const SOURCE_MAP = 'application/source-map';
/** Modules by the content types that Wrangler gives them. */
const MODULE_TYPES: Record<string, Module['type']> = {
  'application/javascript+module': 'esm',
  'application/javascript': 'commonjs',
  'application/wasm': 'wasm',
  'application/octet-stream': 'data',
  'application/json': 'json',
  'text/plain': 'text',
};
/**
 * Matches names that are reserved for modules that Cellar adds to Workers. A name without an extension is allowed:
 * `wrangler secret put` uploads a module that has the name of the app.
 */
const OWN_NAME = /^cellar-(.*\.m?js$|internal:)/;

export interface UnpackOptions {
  /** The file with the body of the upload. */
  body: string;
  /** The body's `Content-Type`, with its boundary. */
  contentType: string;
  /** An empty directory. */
  out: string;
  /** The directory of all sessions of assets. */
  sessions: string;
  /** The account's id, a slash and the script's name. Only the owner that started a session can use it. */
  owner: string;
  /** The directory of the app's releases, whose assets can be used again; `null` for a new app. */
  releases: string | null;
  /** Maximum MiB of the upload's assets. */
  assetsMb: number;
  /** The directory of the live release, from which the upload may inherit bindings; `null` without a live release. */
  live: string | null;
  /** Names of the app's secrets. */
  secrets: string[];
  /** The project's name for each storage, by storage id. */
  keys: Record<string, string>;
}

export interface Unpacked {
  bundle: Bundle;
  /** Values of the upload's secrets, by name. */
  secrets: Record<string, string>;
  message: string;
  tag: string;
  /** The requested name of the upload's preview; empty: none. */
  alias: string;
  notes: string[];
}

/**
 * Unpacks an upload into `out`. When it resolves, all files are synced to the disk.
 * @throws {BuildFailure} for every fault of the upload
 */
export async function unpackUpload(options: UnpackOptions): Promise<Unpacked> {
  const parts = await readParts(options.body, options.contentType);
  const metadata = readMetadata(textOf(parts.get(METADATA)));
  parts.delete(METADATA);
  const { out } = options;
  mkdirSync(out, { recursive: true });
  const notes: string[] = [];
  const { bundle, secrets } =
    metadata.cellar_bundle === undefined
      ? await unpackWranglers(metadata, parts, options, notes)
      : { bundle: await unpackOurs(metadata, parts, options), secrets: {} };
  requireBundleSize(bundle);
  await syncTree(out);
  const {
    'workers/message': message = '',
    'workers/tag': tag = '',
    'workers/alias': alias = '',
  } = metadata.annotations;
  return { bundle, secrets, message, tag, alias, notes };
}

/** Unpacks an upload of Wrangler: modules, and bindings in Cloudflare's format. */
async function unpackWranglers(
  metadata: Metadata,
  parts: Parts,
  options: UnpackOptions,
  notes: string[],
): Promise<{ bundle: Bundle; secrets: Record<string, string> }> {
  const live = options.live === null ? null : readRelease(options.live);
  const script = options.owner.slice(options.owner.indexOf('/') + 1);
  const worker = await unpackWorker(metadata, parts, options.out);
  const isSite = worker !== null && hasSite(metadata, worker.modules, script);
  const assets = isSite
    ? placeSite(options, options.assetsMb)
    : placeAssets(metadata, options, worker !== null);
  if (worker === null && assets === null)
    throw new BuildFailure('metadata: main_module is missing: the upload has neither a Worker nor assets');
  const exports = worker?.exports ?? [];
  const given: LiveBindings = { live, secrets: options.secrets, keys: options.keys, script };
  const { secrets, ...bound } = bindingsOf(metadata, given, exports);
  if (isSite) bound.namespaces = bound.namespaces.filter(({ binding }) => binding !== SITE_NAMESPACE);
  notes.push(...(bound.warnings ?? []).map((text) => `warning: ${text}`));
  const bundle: Bundle = {
    worker: worker && {
      modules: worker.modules,
      compatibilityDate: supportedDate(metadata.compatibility_date ?? newestCompatibilityDate, '', notes),
      compatibilityFlags: metadata.compatibility_flags,
    },
    exports,
    assets,
    classMigrations: migrationsOf(metadata),
    ...bound,
  };
  return { bundle, secrets };
}

/** Unpacks an upload of `cellar deploy --upload`: a bundle and its files. */
async function unpackOurs(metadata: Metadata, parts: Parts, options: UnpackOptions): Promise<Bundle> {
  const paths = new Set<string>();
  for (const [name, part] of parts) {
    if (typeof part === 'string') throw new BuildFailure(`the part ${show(name)} is not a file`);
    const path = moduleName(name);
    if (!SENT_FOLDERS.some((folder) => path.startsWith(`${folder}/`)))
      throw new BuildFailure(`the part ${show(name)} is not below ${SENT_FOLDERS.join('/, ')}/`);
    await writePart(name, path, part, options.out);
    paths.add(path);
  }
  const bundle = checkSentBundle(metadata.cellar_bundle!, paths);
  const { siteManifest } = bundle.assets ?? {};
  if (siteManifest !== undefined) siteKeys(join(options.out, siteManifest));
  const placed = placeAssets(metadata, options, bundle.worker !== null);
  if ((placed === null) !== (bundle.assets === null))
    throw new BuildFailure(
      'metadata: the bundle has assets and the session of the assets is missing, or the other way round: deploy again',
    );
  if (bundle.worker === null && placed === null)
    throw new BuildFailure('the upload has neither a Worker nor assets');
  return bundle;
}

type Part = string | File;
type Parts = Map<string, Part>;

async function readParts(body: string, contentType: string): Promise<Parts> {
  const bytes = await readFile(body);
  const form = await new Response(bytes, { headers: { 'content-type': contentType } })
    .formData()
    .catch(() => null);
  if (form === null)
    throw new BuildFailure(
      'the body is not a complete multipart/form-data: it ended too early, or is damaged',
    );
  const parts: Parts = new Map();
  let cached = 0;
  for (const [name, value] of form) {
    if (parts.has(name)) throw new BuildFailure(`the part ${show(name)} occurs twice`);
    parts.set(name, value);
    // Counted separately: a cache may have as many files as a release.
    if (name.startsWith(`${PREFILL}/`)) cached++;
    if (cached > MAX_ENTRIES)
      throw new BuildFailure(`there are more than ${MAX_ENTRIES} files in ${PREFILL}/: ${FEWER_PAGES}`);
    if (parts.size - cached > MAX_ENTRIES)
      throw new BuildFailure(`there are more than ${MAX_ENTRIES} parts besides those in ${PREFILL}/`);
  }
  return parts;
}

function textOf(part: Part | undefined): string {
  if (typeof part !== 'string') throw new BuildFailure('the part metadata is missing');
  if (Buffer.byteLength(part) > METADATA_BYTES)
    throw new BuildFailure(`the part metadata has more than ${METADATA_BYTES / 2 ** 20} MiB`);
  return part;
}

function readRelease(directory: string): Release {
  return JSON.parse(readFileSync(join(directory, RELEASE_FILE), 'utf8')) as Release;
}

async function unpackWorker(
  metadata: Metadata,
  parts: Parts,
  out: string,
): Promise<{ modules: Module[]; exports: string[] } | null> {
  const { main_module: main, body_part: script } = metadata;
  if (script !== undefined)
    throw new BuildFailure(
      'the Worker is in the service-worker format, which Cellar does not run in an upload: write `export default { fetch(request) {…} }`',
    );
  if (main === undefined) return null;
  const modules: Module[] = [];
  for (const [name, part] of parts) {
    if (typeof part === 'string') throw new BuildFailure(`the part ${show(name)} is not a file`);
    await writeModule(name, part, out, modules);
  }
  const entry = modules.find(({ name }) => name === moduleName(main));
  if (entry === undefined)
    throw new BuildFailure(`the main module is ${show(main)}, and there is no such module in the upload`);
  if (entry.type !== 'esm') throw new BuildFailure(`the main module, ${show(main)}, is not an ES module`);
  const exports = await exportsOf(out, entry, modules);
  // A Worker may export only classes. If nothing can call them, its trial start in workerd refuses it later.
  if (exports.length === 0)
    throw new BuildFailure(
      `${show(main)} has no default export: a Worker is a module with \`export default { fetch(request) {…} }\``,
    );
  return { modules: [entry, ...modules.filter((module) => module !== entry)], exports };
}

async function writeModule(given: string, file: File, out: string, modules: Module[]): Promise<void> {
  const name = moduleName(given);
  const type = Object.hasOwn(MODULE_TYPES, file.type) ? MODULE_TYPES[file.type] : undefined;
  if (type === undefined && file.type !== SOURCE_MAP)
    throw new BuildFailure(
      `${show(given)} is of type ${show(file.type)}, which is not a supported module type`,
    );
  const path = `${MODULES}/${name}`;
  await writePart(given, path, file, out);
  if (type !== undefined) modules.push({ name, type, path });
}

/** Writes a part of the upload to a file. @param path of the file, relative to `out` @throws {BuildFailure} */
async function writePart(given: string, path: string, file: File, out: string): Promise<void> {
  if (file.size > MODULE_BYTES)
    throw new BuildFailure(`${show(given)} has more than ${MODULE_BYTES / 2 ** 20} MiB`);
  try {
    mkdirSync(dirname(join(out, path)), { recursive: true });
    writeFileSync(join(out, path), Buffer.from(await file.arrayBuffer()), { flag: 'wx' });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new BuildFailure(`${show(given)} cannot be kept as a file: ${code}`);
  }
}

/**
 * Returns the normalized name of a module or another part, which is a relative path.
 * @throws {BuildFailure} for an invalid name
 */
function moduleName(given: string): string {
  const name = posix.normalize(given);
  const parts = name.split('/');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (name.startsWith('/') || parts.includes('..') || /[\u0000-\u001f\\]/.test(name) || name.endsWith('/'))
    throw new BuildFailure(`${show(given)} is not a module name`);
  if (OWN_NAME.test(basename(name)))
    throw new BuildFailure(
      `${show(given)}: names of JavaScript modules that begin with cellar- are Cellar's own; rename the module`,
    );
  return name;
}

/** Returns the names that a module exports, with re-exports from other modules of the upload. */
async function exportsOf(out: string, entry: Module, modules: Module[]): Promise<string[]> {
  await init;
  const names = new Set<string>();
  const seen = new Set<Module>();
  const add = (module: Module) => {
    if (seen.has(module)) return;
    seen.add(module);
    const [imports, exports] = lex(module.name, readFileSync(join(out, module.path), 'utf8'));
    for (const each of exports) if ('name' in each && each.name !== undefined) names.add(each.name);
    for (const each of imports) {
      if (each.type !== 'reexport-star') continue;
      const name = posix.normalize(posix.join(posix.dirname(module.name), each.specifier));
      const passed = modules.find((module) => module.name === name && module.type === 'esm');
      if (passed) add(passed);
    }
  };
  add(entry);
  return [...names];
}

function lex(name: string, source: string): ReturnType<typeof parse> {
  try {
    return parse(source, name);
  } catch (error) {
    throw new BuildFailure(`${show(name)} cannot be read: ${(error as Error).message.split('\n')[0]}`);
  }
}

/**
 * Returns the class migrations of an upload. Wrangler sends only the steps that Cellar has not applied, and only the tag of
 * the last step. A `…` before this tag says that all earlier steps are applied with it.
 */
function migrationsOf({ migrations, exports }: Metadata): Bundle['classMigrations'] {
  const last = (migrations?.steps.length ?? 0) - 1;
  const steps = (migrations?.steps ?? []).map((step, at) => ({
    ...step,
    tag: at === last ? `…${migrations!.new_tag}` : `…${migrations!.new_tag}#${at}`,
  }));
  return classMigrations('the upload', { migrations: steps, exports });
}

function show(name: string): string {
  return JSON.stringify(name.slice(0, 200));
}
