// Reads wrangler.toml, .json or .jsonc with wrangler's own function, and warns about the keys that have no effect in Cellar.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, extname, join, resolve } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { requireDepth } from '../bundle-size-limit.ts';
import { BuildFailure } from '../failure.ts';
import { CONFIG_BYTES } from '../limits.ts';
import { show } from '../project/path-containment.ts';
import type { Place } from '../project/place.ts';
import { readProjectFile } from '../project/regular-file.ts';
import { type KeyHandling, nestedKeys, notAvailable, topLevelKeys } from './wrangler-keys.ts';
import {
  explain,
  placeOfAny,
  type UnknownKeys,
  unknownKeysIn,
  unknownKeysMessage,
  type WranglerError,
} from './wrangler-words.ts';

/** Loads wrangler: `import()` would read and parse its 15 MB once more to detect that it is CommonJS. */
const require = createRequire(import.meta.url);

interface RateLimitConfig {
  name: string;
  namespace_id: string;
  simple: { limit: number; period: number };
}

/**
 * The parts of a configuration that Cellar uses. wrangler has checked their shapes, except where a comment says otherwise.
 */
export interface WranglerConfig {
  name?: string;
  /** The static files of a Pages project. */
  pages_build_output_dir?: string;
  /** Names of the environments that the configuration defines. */
  definedEnvironments?: string[];
  /** Absolute path. */
  main?: string;
  find_additional_modules?: boolean;
  /** The folder at which the names of additional modules start; omitted: the folder of `main`. */
  base_dir?: string;
  compatibility_date?: string;
  compatibility_flags: string[];
  vars: Record<string, unknown>;
  secrets?: { required?: string[] };
  /** `cwd` is relative to the configuration's directory. */
  build: { command?: string; cwd?: string };
  assets?: {
    directory?: string;
    binding?: string;
    html_handling?: 'auto-trailing-slash' | 'force-trailing-slash' | 'drop-trailing-slash' | 'none';
    not_found_handling?: 'none' | '404-page' | 'single-page-application';
    run_worker_first?: boolean | string[];
    base_path?: string;
  };
  define: Record<string, string>;
  alias?: Record<string, string>;
  rules: { type: string; globs: string[]; fallthrough?: boolean }[];
  minify?: boolean;
  keep_names?: boolean;
  /** Relative to the process's working directory. */
  tsconfig?: string;
  jsx_factory: string;
  jsx_fragment: string;
  durable_objects: { bindings: { name: string; class_name: string; script_name?: string }[] };
  migrations: {
    tag: string;
    new_classes?: string[] | undefined;
    new_sqlite_classes?: string[] | undefined;
    renamed_classes?: { from: string; to: string }[] | undefined;
    deleted_classes?: string[] | undefined;
  }[];
  /** Declarative exports, the newer form of migrations: for each class, whether it exists, was renamed or was deleted. */
  exports: Record<
    string,
    {
      type: string;
      state?: string | undefined;
      storage?: string | undefined;
      renamed_to?: string | undefined;
    }
  >;
  d1_databases: {
    binding: string;
    database_id?: string;
    database_name?: string;
    migrations_dir?: string;
    migrations_pattern?: string;
    migrations_table?: string;
  }[];
  kv_namespaces: { binding: string; id?: string }[];
  r2_buckets: { binding: string; bucket_name?: string }[];
  vectorize?: { binding: string; index_name: string }[];
  workflows?: {
    binding: string;
    name: string;
    class_name: string;
    script_name?: string;
    limits?: { steps?: number };
    default_retention?: { success_retention?: number | string; error_retention?: number | string };
  }[];
  ratelimits?: RateLimitConfig[];
  /** Wrangler does not check the shape of these bindings. */
  unsafe?: { bindings?: (Partial<RateLimitConfig> & { name: string; type: string })[] };
  ai?: { binding: string };
  images?: { binding: string };
  browser?: { binding: string };
  containers?: {
    class_name: string;
    image: string;
    max_instances?: number;
    instance_type?: string | { vcpu?: number; memory_mib?: number; disk_mb?: number };
  }[];
  analytics_engine_datasets?: { binding: string; dataset?: string }[];
  pipelines?: { binding: string; pipeline?: string; stream?: string }[];
  hyperdrive?: { binding: string; id: string }[];
  /** Wrangler does not check the two lists of addresses. */
  send_email?: {
    name: string;
    destination_address?: string;
    allowed_destination_addresses?: unknown;
    allowed_sender_addresses?: unknown;
  }[];
  version_metadata?: { binding: string };
  worker_loaders?: { binding: string }[];
  limits?: { cpu_ms?: number };
  /** Workers Sites, the older form of `assets`. */
  site?: { bucket: string; 'entry-point'?: string; include?: string[]; exclude?: string[] };
  services?: { binding: string; service: string; entrypoint?: string; props?: Record<string, unknown> }[];
  dispatch_namespaces?: {
    binding: string;
    namespace: string;
    outbound?: { service: string; parameters?: string[] };
  }[];
  mtls_certificates?: { binding: string; certificate_id: string }[];
  secrets_store_secrets?: { binding: string; store_id: string; secret_name: string }[];
  tail_consumers?: { service: string }[];
  triggers: { crons?: string[] };
  queues: {
    producers?: { binding: string; queue?: string }[];
    consumers?: {
      queue: string;
      max_batch_size?: number;
      max_batch_timeout?: number;
      max_retries?: number;
      dead_letter_queue?: string;
      max_concurrency?: number;
      retry_delay?: number;
    }[];
  };
}

export interface ReadConfig {
  config: WranglerConfig;
  /** The configuration's path, as shown to the author. */
  file: string;
  /** The directory that relative paths in `config` start at. */
  base: string;
  /**
   * The project's own configuration when a build wrote `config`; null without one, and when no build wrote `config`.
   */
  own: WranglerConfig | null;
  /** Lines for the deploy's log. */
  notes: string[];
  /** Warnings for the author: keys that have no effect, and bindings that throw. */
  warnings: string[];
}

/**
 * Reads the configuration of a project, or the one that its build wrote in place of it.
 * @param place the project
 * @param path of the project's own configuration, or `null`
 * @param written path of the configuration that the build wrote, or `null`; at least one of the two paths is given
 * @param environment the environment to deploy, or `null` for the top level. A configuration that a build wrote has no
 * environments, so `environment` is not used to read it
 * @throws {BuildFailure} with wrangler's diagnostics
 */
export async function readWranglerConfig(
  { root }: Place,
  path: string | null,
  written: string | null,
  environment: string | null,
): Promise<ReadConfig> {
  const wrangler = require('wrangler') as typeof import('wrangler');
  const read = (from: string, ...call: Parameters<typeof wrangler.unstable_readConfig>) => {
    // Checks that the path is a regular file of limited size: wrangler does not check this.
    readProjectFile(root, from, CONFIG_BYTES);
    return captureWarnings(() => {
      try {
        const config = wrangler.unstable_readConfig(...call) as unknown as Record<string, unknown>;
        requireDepth(config);
        return config;
      } catch (error) {
        throw new BuildFailure(explain(error as WranglerError, show(root, from)));
      }
    });
  };
  const named = environment === null ? {} : { env: environment };
  const own = path === null ? null : read(path, { config: path, ...named });
  const { value, warnings } =
    written === null
      ? own!
      : withRedirect(written, (script) => read(written, { script }, { useRedirectIfAvailable: true }));
  const from = written ?? path!;
  const file = show(root, from);
  const unknown = warnings.map(unknownKeysIn).filter((each) => each !== null);
  const config = environment === null ? value : { ...value, definedEnvironments: [] };
  const { unavailable, ignored } = judge(config, unknown);
  const notes = [...ignored].map(([reason, keys]) => `${keys.join(', ')} ignored: ${reason}`);
  if (environment !== null) notes.unshift(`environment ${environment}`);
  const warned = warnings.filter((warning) => unknownKeysIn(warning) === null);
  return {
    warnings: [...unavailable, ...unknown.map(unknownKeysMessage), ...warned].map(
      (line) => `${file}: ${line}`,
    ),
    config: withSite(value as unknown as WranglerConfig),
    file,
    base: dirname(from),
    own: written === null ? null : ((own?.value ?? null) as WranglerConfig | null),
    notes: notes.map((line) => `${file}: ${line}`),
  };
}

/**
 * Calls `read` with a path in a temporary folder. From there, wrangler finds `written` as the configuration of a build. Only
 * then does wrangler accept some keys of older build tools. The path is not in the project: wrangler would also search the
 * folders above the project, and it refuses to choose between two configurations.
 */
function withRedirect<T>(written: string, read: (script: string) => T): T {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-redirect-'));
  try {
    mkdirSync(join(directory, '.wrangler/deploy'), { recursive: true });
    writeFileSync(join(directory, 'wrangler.json'), '{}');
    writeFileSync(join(directory, '.wrangler/deploy/config.json'), JSON.stringify({ configPath: written }));
    return read(join(directory, 'any'));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/**
 * Sets `main` to the Worker that Workers Sites name as `entry-point`, an older key. Without a Worker, the site becomes
 * assets.
 */
function withSite(config: WranglerConfig): WranglerConfig {
  const { main, assets, site } = config;
  if (main !== undefined || assets !== undefined || site === undefined) return config;
  // wrangler always sets `entry-point`, relative to the working directory.
  const entry = resolve(site['entry-point']!);
  const named = extname(entry) === '' ? join(entry, 'index.js') : entry;
  if (existsSync(named)) return { ...config, main: named };
  return { ...config, assets: { directory: site.bucket } };
}

/** Runs `read` and collects wrangler's warnings, which wrangler prints to the console. A warning may have several lines. */
function captureWarnings<T>(read: () => T): { value: T; warnings: string[] } {
  const warnings: string[] = [];
  const { warn, info } = console;
  console.info = () => {};
  console.warn = (...parts: unknown[]) => {
    for (const line of stripVTControlCharacters(parts.join(' ')).split('\n')) {
      const item = /^\s*- (.*\S)/.exec(line)?.[1];
      if (item !== undefined) warnings.push(item);
      else if (warnings.length > 0 && /^ {6}(?!```)/.test(line))
        warnings.push(`${warnings.pop()}\n${line.slice(4)}`);
    }
  };
  try {
    return { value: read(), warnings };
  } finally {
    Object.assign(console, { warn, info });
  }
}

/**
 * Sorts the keys of a configuration by how Cellar treats them. `unavailable` has a message for each key; `ignored` maps
 * a reason to its keys.
 * @param unknown the unknown keys that wrangler found; this function adds those in objects that wrangler does not check
 */
function judge(
  config: Record<string, unknown>,
  unknown: UnknownKeys[],
): { unavailable: string[]; ignored: Map<string, string[]> } {
  const unavailable: string[] = [];
  const ignored = new Map<string, string[]>();
  const consider = (key: string, treatment: KeyHandling | undefined) => {
    if (treatment === 'used' || treatment === 'quiet') return;
    if (!treatment || 'instead' in treatment) unavailable.push(notAvailable(key, treatment));
    else ignored.set(treatment.ignored, [...(ignored.get(treatment.ignored) ?? []), key]);
  };
  const { definedEnvironments, ...keys } = withoutDerived(config);
  for (const [key, value] of Object.entries(keys)) if (isGiven(value)) consider(key, topLevelKeys[key]);
  if (isGiven(definedEnvironments)) consider('env', topLevelKeys.env);
  for (const [place, treatments] of Object.entries(nestedKeys)) {
    const given = new Set(
      itemsAt(config, place).flatMap((item) => Object.keys(item).filter((key) => isGiven(item[key]))),
    );
    const shown = placeOfAny(place);
    const found = unknown.filter((each) => each.place !== null && placeOfAny(each.place) === shown);
    const missed = [...given].filter(
      (key) => !Object.hasOwn(treatments, key) && !found.some(({ keys }) => keys.includes(key)),
    );
    if (missed.length > 0) unknown.push({ place: shown, keys: missed });
    for (const key of given) if (Object.hasOwn(treatments, key)) consider(`${shown}.${key}`, treatments[key]);
  }
  return { unavailable, ignored };
}

/** Removes the keys that wrangler adds to describe the file. */
function withoutDerived(config: Record<string, unknown>): Record<string, unknown> {
  const { configPath, userConfigPath, topLevelName, targetEnvironment, ...rest } = config;
  return rest;
}

/** Returns whether a value is neither empty nor false. wrangler fills missing keys with such values. */
function isGiven(value: unknown): boolean {
  if (value === undefined || value === null || value === false) return false;
  if (typeof value === 'object') return Object.values(value).some(isGiven);
  return true;
}

const EACH = /\[\]|\{\}/;

/** Returns the objects at a place such as `durable_objects.bindings[]`. */
function itemsAt(config: Record<string, unknown>, place: string): Record<string, unknown>[] {
  const path = placeOfAny(place).split('.');
  const value = path.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], config);
  if (value === undefined || value === null) return [];
  return (EACH.test(place) ? Object.values(value) : [value]) as Record<string, unknown>[];
}
