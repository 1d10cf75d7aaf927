// What the commands of a build see of the machine: a clean environment, and of the host's only what an installer
// needs to reach its registry.
import { execFile } from 'node:child_process';
import { accessSync, chmodSync, constants, mkdirSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { cacheDirectories } from './cache.ts';

const execute = promisify(execFile);
const SYSTEM_PATHS = ['/usr/local/bin', '/usr/bin', '/bin'];

/**
 * How this machine reaches the network: its proxy and its certificates. Without them no installer works behind a
 * company's proxy; none of them is a secret of the host, unlike the rest of its environment.
 */
const NETWORK_VARIABLES = [
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
];

/** The directories of one build. All exist. */
export interface BuildDirectories {
  /** The checked-out worktree. */
  project: string;
  home: string;
  temporary: string;
  /** Kept between the builds of one app. */
  cache: string;
}

/** Makes the directories of a build below `scratch`, and its cache. Others may pass through `scratch` itself. */
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

/**
 * The environment of a build's commands.
 * @param variables the app's own; platform names never come in, because the API refuses them
 */
export async function buildEnvironment(
  { home, temporary, cache }: BuildDirectories,
  variables: Record<string, string>,
): Promise<Record<string, string>> {
  const network = NETWORK_VARIABLES.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  const registry = await registrySettings();
  const caches = cacheDirectories(cache);
  return {
    LANG: 'C.UTF-8',
    ...Object.fromEntries(network),
    ...variables,
    PATH: searchPath().join(delimiter),
    HOME: home,
    TMPDIR: temporary,
    CI: 'true',
    ...registry,
    npm_config_cache: caches.npm,
    npm_config_update_notifier: 'false',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
    YARN_CACHE_FOLDER: caches.yarn,
    YARN_GLOBAL_FOLDER: join(caches.yarn, 'modern'),
    YARN_ENABLE_TELEMETRY: 'false',
    // The bundler reads packages from files of the project, not from archives in a cache.
    YARN_NODE_LINKER: 'node-modules',
    ...(registry.npm_config_registry && { YARN_NPM_REGISTRY_SERVER: registry.npm_config_registry }),
    BUN_INSTALL_CACHE_DIR: caches.bun,
  };
}

/** Where a program that builds may use lies, or `null`. */
export function findProgram(name: string, directories = searchPath()): string | null {
  return directories.map((directory) => join(directory, name)).find(isExecutable) ?? null;
}

/** The Node that runs the host, the system's programs, and npm wherever this machine has it. */
function searchPath(): string[] {
  const own = (process.env.PATH ?? '').split(delimiter).filter((path) => path.startsWith('/'));
  const npm = findProgram('npm', [...SYSTEM_PATHS, ...own]);
  return [...new Set([dirname(process.execPath), ...SYSTEM_PATHS, ...(npm ? [dirname(npm)] : [])])];
}

let settings: Promise<Record<string, string>> | undefined;

/**
 * How npm reaches its registry, from the configuration of the user who runs the host, whose home a build does not
 * see. Only the address and the certificates: a token in that file is not for the code of apps.
 */
function registrySettings(): Promise<Record<string, string>> {
  settings ??= execute('npm', ['config', 'get', 'registry', 'cafile'], {
    // Not a directory where others can leave a configuration of npm's.
    cwd: '/',
    timeout: 30_000,
    env: { ...process.env, PATH: [...searchPath(), process.env.PATH].join(delimiter) },
  }).then(
    ({ stdout }) =>
      Object.fromEntries(
        [...stdout.matchAll(/^(registry|cafile)=(.+)$/gm)].flatMap(([, name, value]) =>
          value === 'null' ? [] : [[`npm_config_${name}`, value!]],
        ),
      ),
    () => ({}),
  );
  return settings;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
