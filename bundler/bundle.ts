// Makes a `Bundle` from a built worktree: modules, assets and migrations in a directory, the rest as data.
import { mkdirSync, realpathSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { classMigrations, durableObjects, objectsElsewhere } from './bindings/classes.ts';
import { classContainers } from './bindings/containers.ts';
import { dispatchBindings } from './bindings/dispatch.ts';
import { copyMigrations, migrationsTable } from './bindings/migrations.ts';
import { missingWithinKeys } from './bindings/missing-bindings.ts';
import { mtlsBindings } from './bindings/mtls-certificates.ts';
import { outwardBindings } from './bindings/outward.ts';
import { pipelineBindings } from './bindings/pipelines.ts';
import { rateLimits } from './bindings/rate-limits.ts';
import { storeSecretBindings } from './bindings/secrets-store.ts';
import { serviceBindings, tailConsumers } from './bindings/services.ts';
import { sharedStorage } from './bindings/shared-storage.ts';
import { triggers } from './bindings/triggers.ts';
import { workflows } from './bindings/workflows.ts';
import { requireBundleSize } from './bundle-size-limit.ts';
import { newestCompatibilityDate, supportedDate } from './configuration/compatibility-date.ts';
import { emptyConfiguration } from './configuration/preflight.ts';
import { pagesOfSite, readConfig, withPages } from './configuration/read-config.ts';
import type { ReadConfig, WranglerConfig } from './configuration/wrangler-config.ts';
import { deployScript } from './deploy-script/deploy-script.ts';
import { BuildFailure } from './failure.ts';
import { copyNextCache, tagsMigration } from './frameworks/next-cache.ts';
import { entryPath } from './modules/entry.ts';
import { bundleWorker, type WorkerSource } from './modules/worker.ts';
import { assetRules, copyAssets, pagesOnlyCode } from './project/assets.ts';
import { COMPILED_FUNCTIONS, hasPagesWorker, withPagesHeaders } from './project/cloudflare-pages.ts';
import { insidePath, isThere, show } from './project/path-containment.ts';
import { type Place, placeOf } from './project/place.ts';
import type { BuiltProject } from './project/plan.ts';
import {
  findProject,
  isPartOfServer,
  misnamedConfiguration,
  nothingDeployable,
  packageJsonOf,
  SERVER_ADVICE,
} from './project/project.ts';
import { counted, siteAssets } from './project/site.ts';
import type { Assets, Bundle } from './release.ts';
import { syncTree } from './sync.ts';
import { bundleWorkersSite } from './workers-site/workers-site.ts';

/** A bundle, and lines for the deploy's log. */
export interface Bundled {
  bundle: Bundle;
  notes: string[];
  /** Whether every import of the Worker was found, and its bundling gave no warnings. */
  isComplete: boolean;
}

const ASSETS = 'assets';
/** Maximum notes for the deploy's log, and maximum warnings of a bundle. */
const NOTES = 100;
/** Maximum characters of a note or warning. */
const NOTE_LENGTH = 2_000;

const nothing: Bundle = {
  worker: null,
  exports: [],
  vars: {},
  assets: null,
  durableObjects: [],
  classMigrations: [],
  databases: [],
  namespaces: [],
};

export interface BundleOptions extends BuiltProject {
  /** An empty or missing directory. */
  out: string;
  /** Maximum MiB of the project's assets. */
  assetsMb: number;
}

/**
 * Bundles a project. When it resolves, all its files are synced to the disk.
 * @throws {BuildFailure} for every fault of the project
 */
export async function bundleProject(options: BundleOptions): Promise<Bundled> {
  const bundled = await bundleKind(options);
  requireBundleSize(bundled.bundle);
  await syncTree(options.out);
  return { ...bundled, notes: bounded(bundled.notes) };
}

async function bundleKind(options: BundleOptions): Promise<Bundled> {
  const { worktree, settings, out, environment, deployLine, assetsMb, before } = options;
  const { root_directory, output_directory } = settings;
  const place = { ...placeOf(realpathSync(worktree), root_directory), deployLine };
  const project = findProject(place, before, output_directory);
  if (project === null) throw nothingDeployable(place, output_directory);
  mkdirSync(out, { recursive: true });
  if (project.kind === 'site') {
    const { directory } = project;
    if (!hasPagesWorker(place, directory)) return bundleSite(place, directory, out, assetsMb);
    return bundleConfig(place, pagesOfSite(place, directory), out, assetsMb);
  }
  if (project.kind === 'worker') return bundlePlainWorker(place.root, project.main, out);
  const read = await readConfig(place, project, environment, true);
  if (output_directory !== null && read.config.pages_build_output_dir === undefined)
    throw misnamedConfiguration(read.file);
  return bundleConfig(place, withPages(place, read, output_directory), out, assetsMb);
}

/** Limits the number of notes for a log, and the length of each. */
function bounded(notes: string[]): string[] {
  const rest = notes.length - NOTES;
  const shown = notes.slice(0, NOTES).map((note) => note.slice(0, NOTE_LENGTH).toWellFormed());
  return rest > 0 ? [...shown, `… and ${rest} more notes`] : shown;
}

function bundleSite(place: Place, directory: string, out: string, assetsMb: number): Bundled {
  const { root } = place;
  if (isPartOfServer(place, directory))
    throw new BuildFailure(
      `"start" of package.json runs a Node server${SERVER_ADVICE}. To serve ${show(root, directory)} alone, name it as "assets.directory" in a wrangler.jsonc`,
    );
  const { files, pages } = copyAssets(place, directory, join(out, ASSETS), assetsMb);
  const { assets, what } = siteAssets({ root, from: directory, pages }, out, ASSETS);
  const isPages = (deployScript(packageJsonOf(place)?.scripts ?? {})?.call.pages ?? null) !== null;
  const warnings =
    isPages && pages === 0
      ? [
          `${show(root, directory)} has no page, and the app has no Worker: after the build there is no handler in functions/, and no _worker.js`,
        ]
      : [];
  return {
    bundle: { ...nothing, assets, ...(warnings.length > 0 && { warnings }) },
    notes: [
      `${what}: ${counted(files)} in ${show(root, directory)}`,
      ...warnings.map((text) => `warning: ${text}`),
    ],
    isComplete: true,
  };
}

async function bundlePlainWorker(root: string, main: string, out: string): Promise<Bundled> {
  const compatibilityDate = newestCompatibilityDate;
  const source: WorkerSource = {
    root,
    main,
    compatibilityDate,
    compatibilityFlags: [],
    rules: [],
    hasSite: false,
    moduleBase: null,
    alias: {},
    aliasFolder: root,
    options: { keepNames: true },
  };
  const { modules, exports, warnings, isComplete } = await bundleWorker(source, out);
  const file = show(root, main);
  const worker = { modules, compatibilityDate, compatibilityFlags: [], main: file };
  return {
    bundle: { ...nothing, worker, exports },
    notes: [`Worker: ${file}, compatibility date ${compatibilityDate}`, ...warnings],
    isComplete,
  };
}

async function bundleConfig(
  place: Place,
  { config, file, base, own, notes, warnings: read }: ReadConfig,
  out: string,
  assetsMb: number,
): Promise<Bundled> {
  const { root } = place;
  const compatibilityDate = datedConfig(file, config.compatibility_date, notes);
  const warnings = [
    ...read,
    ...missingWithinKeys(config).map(({ message }) => `${file}: ${message}`),
    ...sharedStorage(file, config),
  ];
  notes.push(...warnings.map((text) => `warning: ${text}`));
  let worker: Bundle['worker'] = null;
  let exports: string[] = [];
  let isComplete = true;
  if (config.main !== undefined) {
    const source = {
      ...workerSource(root, base, config, config.main, compatibilityDate),
      // As in Wrangler, aliases are resolved in the project's folder, even if a build wrote another configuration.
      ...(own !== null && { aliasFolder: place.folder }),
    };
    const bundled = await bundleWorker(source, out);
    const isCompiled = source.main === join(place.folder, COMPILED_FUNCTIONS, 'index.js');
    const main = isCompiled ? 'functions/' : show(root, source.main);
    const { modules } = bundled;
    worker = { modules, compatibilityDate, compatibilityFlags: config.compatibility_flags, main };
    exports = bundled.exports;
    isComplete = bundled.isComplete;
    notes.push(`Worker: ${main}`, ...bundled.warnings);
  } else if (config.assets?.directory === undefined) {
    throw emptyConfiguration(file);
  }
  const bundledAssets = bundleAssets({ place, base, config, out, assetsMb, worker, notes });
  const { assets, prefill } = copyNextCache({
    place,
    file,
    config,
    worker,
    assets: bundledAssets,
    out,
    limitMb: assetsMb,
  });
  const called = triggers(file, config, notes);
  const buckets = config.r2_buckets.map(({ binding, bucket_name }) => ({
    binding,
    key: bucket_name || binding,
  }));
  const containers = classContainers(file, config);
  const vectorIndexes = (config.vectorize ?? []).map(({ binding, index_name: key }) => ({ binding, key }));
  const limits = rateLimits(file, config);
  const flows = workflows(file, config, exports);
  const services = serviceBindings(file, config, exports);
  const namespaces = dispatchBindings(file, config);
  const storeSecrets = storeSecretBindings(file, config);
  const mtlsCertificates = mtlsBindings(file, config);
  const elsewhere = objectsElsewhere(file, config);
  const tails = tailConsumers(file, config);
  const outward = [...outwardBindings(config), ...pipelineBindings(config.pipelines ?? [], buckets)];
  const bundle: Bundle = {
    worker,
    exports,
    vars: config.vars,
    assets,
    durableObjects: durableObjects(file, config, exports),
    ...(elsewhere.length > 0 && { objectsElsewhere: elsewhere }),
    classMigrations: classMigrations(file, config),
    databases: config.d1_databases.map((database, i) => {
      const { binding, database_id, database_name } = database;
      // As in Wrangler, the paths of migrations come from the project's own configuration. In the configuration that a build
      // writes, some build tools leave these paths relative to the project's folder.
      const named = own?.d1_databases.find((each) => each.binding === binding);
      const target = `migrations/${i}`;
      const from = named ? place.folder : base;
      const migrations = [
        ...copyMigrations(root, from, named ?? database, out, target, notes),
        ...tagsMigration(binding, out, `${target}-opennext`),
      ];
      return {
        binding,
        key: database_id || database_name || binding,
        ...(database_name && { name: database_name }),
        migrations,
        ...migrationsTable(named ?? database),
      };
    }),
    namespaces: config.kv_namespaces.map(({ binding, id }) => ({ binding, key: id || binding })),
    ...(buckets.length > 0 && { buckets }),
    ...(vectorIndexes.length > 0 && { vectorIndexes }),
    ...(flows.length > 0 && { workflows: flows }),
    ...(limits.length > 0 && { rateLimits: limits }),
    ...(services.length > 0 && { services }),
    ...(namespaces.length > 0 && { dispatchNamespaces: namespaces }),
    ...(storeSecrets.length > 0 && { storeSecrets }),
    ...(mtlsCertificates.length > 0 && { mtlsCertificates }),
    ...(tails.length > 0 && { tailConsumers: tails }),
    ...(outward.length > 0 && { outward }),
    ...(config.version_metadata && {
      versionMetadata: { binding: config.version_metadata.binding, tag: '' },
    }),
    ...(config.worker_loaders?.length && {
      workerLoaders: config.worker_loaders.map(({ binding }) => ({ binding })),
    }),
    ...(containers.length > 0 && { containers }),
    ...(config.limits?.cpu_ms !== undefined && { cpuMs: config.limits.cpu_ms }),
    ...(called && { triggers: called }),
    ...(config.secrets?.required?.length && { requiredSecrets: config.secrets.required }),
    ...(prefill && { prefill }),
    ...(warnings.length > 0 && { warnings: bounded(warnings) }),
  };
  return { bundle, notes, isComplete };
}

/** Returns the compatibility date of a configuration, or workerd's newest if it has none. */
function datedConfig(file: string, asked: string | undefined, notes: string[]): string {
  if (asked !== undefined) return supportedDate(asked, `${file}: `, notes);
  notes.push(
    `${file}: compatibility_date is missing, so each deploy uses the newest one, now ${newestCompatibilityDate}`,
  );
  return newestCompatibilityDate;
}

function workerSource(
  root: string,
  base: string,
  config: WranglerConfig,
  main: string,
  compatibilityDate: string,
): WorkerSource {
  return {
    root,
    main: entryPath(root, base, main, 'main'),
    compatibilityDate,
    compatibilityFlags: config.compatibility_flags,
    rules: config.rules,
    hasSite: config.site !== undefined,
    moduleBase: config.find_additional_modules ? moduleBase(root, base, config) : null,
    alias: config.alias ?? {},
    aliasFolder: base,
    options: {
      define: config.define,
      keepNames: config.keep_names ?? true,
      minify: config.minify ?? false,
      jsxFactory: config.jsx_factory,
      jsxFragment: config.jsx_fragment,
      ...(config.tsconfig && { tsconfig: insidePath(root, base, resolve(config.tsconfig), 'tsconfig') }),
    },
  };
}

/** Returns the folder at which the names of additional modules start. */
function moduleBase(root: string, base: string, { main, base_dir: named }: WranglerConfig): string {
  return named === undefined
    ? dirname(entryPath(root, base, main!, 'main'))
    : insidePath(root, base, named, 'base_dir');
}

interface AssetsSource {
  place: Place;
  base: string;
  config: WranglerConfig;
  out: string;
  assetsMb: number;
  /** `null` without a Worker. */
  worker: Bundle['worker'];
  /** `bundleAssets` adds lines for the deploy's log. */
  notes: string[];
}

function bundleAssets({ place, base, config, out, assetsMb, worker, notes }: AssetsSource): Assets | null {
  const { site } = config;
  if (site !== undefined && worker !== null) {
    const source = { place, base, site, out, directory: ASSETS, limitMb: assetsMb };
    const { assets, note } = bundleWorkersSite(source, worker);
    notes.push(note);
    return assets;
  }
  if (config.assets === undefined) return null;
  const { directory, binding, html_handling, not_found_handling, run_worker_first, base_path } =
    config.assets;
  if (directory === undefined)
    throw new BuildFailure('assets.directory is missing: it names the folder of the files');
  const from = insidePath(place.root, base, directory, 'assets.directory');
  const copied = copyAssets(place, from, join(out, ASSETS), assetsMb);
  notes.push(`assets: ${counted(copied.files)} in ${show(place.root, from)}`);
  const isPages = config.pages_build_output_dir !== undefined;
  if (config.main === undefined && !isPages) notes.push(...pagesOnlyCode(place, from));
  const rules = assetRules(join(out, ASSETS));
  if (worker === null && rules.redirects === undefined && !isThere(place.root, join(from, 'index.html')))
    notes.push(`/ answers 404: ${show(place.root, from)} has no index.html`);
  return {
    directory: ASSETS,
    binding: binding ?? null,
    notFoundHandling: not_found_handling ?? 'none',
    htmlHandling: html_handling ?? 'auto-trailing-slash',
    runWorkerFirst: run_worker_first ?? false,
    ...(base_path !== undefined && { basePath: base_path }),
    rules: isPages ? { ...rules, headers: withPagesHeaders(rules.headers) } : rules,
  };
}
