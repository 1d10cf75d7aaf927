// Reads a project's configuration: from Wrangler's file, from a file that the build wrote, or from a script.
import { join } from 'node:path';
import type { DeployCall } from '../deploy-script/wrangler-call.ts';
import { BuildFailure } from '../failure.ts';
import { asWorker } from '../project/cloudflare-pages.ts';
import { insidePath } from '../project/path-containment.ts';
import type { Place } from '../project/place.ts';
import type { Project } from '../project/project.ts';
import { auxiliaryNotes, redirectedConfig } from './redirect.ts';
import { type ReadConfig, readWranglerConfig, type WranglerConfig } from './wrangler-config.ts';

/** An empty configuration, with Wrangler's defaults. */
const EMPTY: WranglerConfig = {
  compatibility_flags: [],
  vars: {},
  build: {},
  define: {},
  rules: [],
  jsx_factory: 'React.createElement',
  jsx_fragment: 'React.Fragment',
  durable_objects: { bindings: [] },
  migrations: [],
  exports: {},
  d1_databases: [],
  kv_namespaces: [],
  r2_buckets: [],
  triggers: {},
  queues: {},
};

/**
 * Reads the configuration of a project of the kind `wrangler`.
 * @param environment the environment to deploy; `null`: the one that the project's deploy script names, else the top
 * level, or `production` of a Pages project
 * @param written whether the build has run, so that a configuration that it wrote is used
 * @throws {BuildFailure} as `readWranglerConfig` does, and when a script names a configuration that does not exist
 */
export async function readConfig(
  place: Place,
  { config, call }: Extract<Project, { kind: 'wrangler' }>,
  environment: string | null,
  written: boolean,
): Promise<ReadConfig> {
  const { folder } = place;
  // As in Wrangler, a script that names a configuration deploys it, and not the one that the build wrote.
  const isNamed = call?.isCertain && call.config !== null && config === join(folder, call.config);
  const found = written || config === null ? redirectedConfig(place, written && !isNamed) : null;
  const redirected = isNamed && found?.path !== config ? null : found;
  if (config === null && redirected === null) return configOfCall(folder, call!);
  const named = environment ?? call?.environment ?? null;
  const readNamed = (name: string | null) =>
    readWranglerConfig(place, config, redirected?.path ?? null, name);
  const read = await readNamed(named);
  const { pages_build_output_dir: pages, definedEnvironments } = read.config;
  if (pages !== undefined && named === null && definedEnvironments?.includes('production'))
    return readNamed('production');
  const applied = call === null ? read : withCall(folder, read, call, redirected !== null);
  return redirected === null
    ? applied
    : { ...applied, notes: [...applied.notes, ...auxiliaryNotes(redirected)] };
}

/**
 * Merges a script's arguments into a configuration. As in Wrangler, the arguments take precedence.
 * @param isOfBuild whether the build wrote the configuration, which then names the folder of a Pages project
 */
function withCall(folder: string, read: ReadConfig, call: DeployCall, isOfBuild: boolean): ReadConfig {
  const { config } = read;
  const isSilent =
    config.main === undefined &&
    config.assets?.directory === undefined &&
    config.pages_build_output_dir === undefined;
  // A script that may deploy a trial version is used only if the configuration names nothing to deploy.
  if (!call.isCertain && !isSilent) return read;
  if (call.pages !== null && isOfBuild) return read;
  if (call.pages !== null)
    return { ...read, config: { ...config, pages_build_output_dir: join(folder, call.pages) } };
  const said = configOf(folder, call);
  return {
    ...read,
    notes: [...read.notes, ...leftOutNotes(call)],
    config: {
      ...config,
      ...said,
      vars: { ...config.vars, ...call.vars },
      define: { ...config.define, ...call.define },
      alias: { ...config.alias, ...call.alias },
      ...(said.assets && { assets: { ...config.assets, ...said.assets } }),
    },
  };
}

/** Turns a Pages project's configuration into a Worker's, once its files exist. Returns other configurations unchanged. */
export function withPages(place: Place, read: ReadConfig, output: string | null): ReadConfig {
  const { pages_build_output_dir: named } = read.config;
  if (named === undefined) return read;
  const directory =
    output === null
      ? insidePath(place.root, read.base, named, 'pages_build_output_dir')
      : insidePath(place.root, place.folder, output, 'output_directory');
  return asWorker(place, read, directory);
}

/** Returns a Worker's configuration for a Pages project without a configuration. */
export function pagesOfSite(place: Place, directory: string): ReadConfig {
  const config = { ...EMPTY, pages_build_output_dir: directory };
  return asWorker(place, { ...noConfig(place.folder), config }, directory);
}

function noConfig(folder: string): Omit<ReadConfig, 'config'> {
  return { file: 'package.json', base: folder, own: null, notes: [], warnings: [] };
}

/** Returns the configuration in the arguments of a deploy script. Used when the project has no Wrangler file. */
function configOfCall(folder: string, call: DeployCall): ReadConfig {
  if (call.config !== null)
    throw new BuildFailure(`"${call.script}" of package.json: there is no ${call.config}`);
  return {
    ...noConfig(folder),
    notes: [`"${call.script}" of package.json says what is deployed`, ...leftOutNotes(call)],
    config: {
      ...EMPTY,
      ...configOf(folder, call),
      vars: call.vars,
      define: call.define,
      alias: call.alias,
    },
  };
}

/** Returns a line for the deploy's log for each argument that is left out. */
function leftOutNotes({ script, leftOut }: DeployCall): string[] {
  return leftOut.map(
    (argument) =>
      `"${script}" of package.json: ${argument} is left out, because only a shell knows its value; set it in a Wrangler configuration`,
  );
}

/** Returns the fields that a script's arguments replace. `vars`, `define` and `alias` are merged by the callers. */
function configOf(folder: string, call: DeployCall): Partial<WranglerConfig> {
  const {
    name,
    main,
    assets,
    compatibilityDate,
    compatibilityFlags,
    minify,
    tsconfig,
    jsxFactory,
    jsxFragment,
  } = call;
  return {
    ...(name !== null && { name }),
    ...(main !== null && { main: join(folder, main) }),
    ...(assets !== null && { assets: { directory: join(folder, assets) } }),
    ...(compatibilityDate !== null && { compatibility_date: compatibilityDate }),
    ...(compatibilityFlags.length > 0 && { compatibility_flags: compatibilityFlags }),
    ...(minify !== null && { minify }),
    ...(tsconfig !== null && { tsconfig: join(folder, tsconfig) }),
    ...(jsxFactory !== null && { jsx_factory: jsxFactory }),
    ...(jsxFragment !== null && { jsx_fragment: jsxFragment }),
  };
}
