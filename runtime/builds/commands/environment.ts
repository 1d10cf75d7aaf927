// Directories and environment of a build's commands. Of the host's environment, these commands get only what an installer
// needs to reach its registry.
import { chmodSync, mkdirSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { isThere } from '../../../bundler/project/path-containment.ts';
import type { Plan } from '../../../bundler/project/plan.ts';
import { readHead } from '../../../bundler/project/regular-file.ts';
import { searchPath } from '../../processes/programs.ts';
import type { BuildInput } from '../release/build-input.ts';
import { branchOf } from '../source/history.ts';
import { cacheDirectories } from './cache.ts';
import { networkVariables, npmSettings } from './network-settings.ts';

/** The directories of one build. All exist. */
export interface BuildDirectories {
  /** The checked-out worktree. */
  project: string;
  home: string;
  temporary: string;
  /** Kept between the builds of one app. */
  cache: string;
}

/** Makes the directories of a build below `scratch`, and its cache. Other users may traverse `scratch` itself. */
export function makeDirectories(scratch: string, cache: string): BuildDirectories {
  const directories = {
    project: join(scratch, 'project'),
    home: join(scratch, 'home'),
    temporary: join(scratch, 'tmp'),
    cache,
  };
  for (const path of Object.values(directories)) mkdirSync(path, { recursive: true, mode: 0o700 });
  chmodSync(scratch, 0o711);
  return directories;
}

/** Returns the variables that describe the commit. They change with every build, so the install cache ignores them. */
export function commitVariables(
  input: BuildInput,
  { isPages }: Pick<Plan, 'isPages'>,
): Record<string, string> {
  const { sha, url, deployId } = input;
  const branch = branchOf(input);
  if (!isPages)
    return {
      WORKERS_CI_COMMIT_SHA: sha,
      WORKERS_CI_BRANCH: branch,
      WORKERS_CI_BUILD_UUID: deployId,
    };
  return { CF_PAGES_COMMIT_SHA: sha, CF_PAGES_BRANCH: branch, ...(url !== null && { CF_PAGES_URL: url }) };
}

const DEFAULT_REGISTRY = 'https://registry.npmjs.org/';
const REGISTRY_FILES = ['.npmrc', '.yarnrc', '.yarnrc.yml', 'bunfig.toml'];
const REGISTRY_FILE_BYTES = 64 * 1024;
/** Matches no line breaks as leading space: with `\s`, many empty lines would take quadratic time. `\uFEFF` is a BOM. */
const NAMES_REGISTRY = /^[ \t\uFEFF]*(?:registry|npmRegistryServer)\b/m;

/**
 * Returns the environment of a build's commands.
 * @param variables the app's own; the API refuses names in `reservedEnvNames`
 */
export async function buildEnvironment(
  { project, home, temporary, cache }: BuildDirectories,
  variables: Record<string, string>,
  { isPages, folder, installFolder }: Pick<Plan, 'isPages' | 'folder' | 'installFolder'>,
): Promise<Record<string, string>> {
  const { npm_config_registry: ofMachine, ...npm } = await npmSettings();
  const registry =
    ofMachine === DEFAULT_REGISTRY && namesRegistry(project, [folder, installFolder]) ? undefined : ofMachine;
  const caches = cacheDirectories(cache);
  return {
    LANG: 'C.UTF-8',
    ...networkVariables(),
    // Frameworks choose their target by these variables.
    [isPages ? 'CF_PAGES' : 'WORKERS_CI']: '1',
    // Otherwise Turborepo hides npm's settings, the certificates and the app's variables from the programs that it runs.
    TURBO_ENV_MODE: 'loose',
    ...variables,
    PATH: searchPath().join(delimiter),
    HOME: home,
    TMPDIR: temporary,
    CI: 'true',
    // No build commits. Git hooks that an install sets up would make the install impossible to cache.
    HUSKY: '0',
    // Otherwise npm writes its compile cache, hundreds of files, to a directory that is deleted with the build.
    NODE_DISABLE_COMPILE_CACHE: '1',
    // Git must not treat the project as part of a repository around it, which it sees without a sandbox.
    GIT_CEILING_DIRECTORIES: dirname(project),
    ...npm,
    // npm's default registry is left out when the project's files name one, because a variable would override them.
    ...(registry && { npm_config_registry: registry, YARN_NPM_REGISTRY_SERVER: registry }),
    npm_config_cache: caches.npm,
    npm_config_update_notifier: 'false',
    npm_config_audit: 'false',
    // Otherwise the project's .npmrc could refuse this Node by `engines`. pnpm hides lower-case names from scripts.
    NPM_CONFIG_ENGINE_STRICT: 'false',
    npm_config_fund: 'false',
    YARN_CACHE_FOLDER: caches.yarn,
    YARN_GLOBAL_FOLDER: join(caches.yarn, 'modern'),
    YARN_ENABLE_TELEMETRY: 'false',
    // The bundler reads packages from files in the project, not from archives in a cache.
    YARN_NODE_LINKER: 'node-modules',
    BUN_INSTALL_CACHE_DIR: caches.bun,
  };
}

/** Returns whether the project's files name a registry for all packages. @param folders where to look, relative to the project */
function namesRegistry(project: string, folders: string[]): boolean {
  const root = realpathSync(project);
  return [...new Set(['', ...folders])].some((folder) =>
    REGISTRY_FILES.some((name) => {
      const path = join(root, folder, name);
      return (
        isThere(root, path) && NAMES_REGISTRY.test(readHead(root, path, REGISTRY_FILE_BYTES).toString('utf8'))
      );
    }),
  );
}
