// What kind of project a worktree holds, and what has to run before it can be bundled.
import { lstatSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { BuildFailure } from './failure.ts';
import { isInside, show } from './inside.ts';
import { redirectedConfig } from './redirect.ts';

/** Where a static site's `index.html` may lie: what its tools write first, the sources themselves last. */
const SITE_DIRECTORIES = ['dist', 'build', 'out', 'public', '.'];
const CONFIG_FILES = ['wrangler.json', 'wrangler.jsonc', 'wrangler.toml'];
const PACKAGE_JSON_BYTES = 2 * 2 ** 20;
/** A command that runs a program of the project in Node, variables before it aside. */
const NODE_COMMAND = /^(?:\w+=\S*\s+)*(?:node|nodemon|tsx|ts-node)\s/;
const ENTRY_FILES = ['index.ts', 'index.js'];

/** What the author of a server for Node can do, after words that name it. */
export const SERVER_ADVICE =
  ", and a Worker has no port to listen on: export a handler, `export default { fetch(request) {…} }`, or keep the server and add `import { httpServerHandler } from 'cloudflare:node'; export default httpServerHandler({ port })` with the port it listens on";

export type Project =
  /** `config` is the path of the project's own Wrangler configuration; `null`: its build wrote the only one. */
  | { kind: 'wrangler'; config: string | null }
  /** `directory` holds `index.html`. */
  | { kind: 'site'; directory: string }
  | { kind: 'worker'; main: string };

/** The parts of `package.json` a build goes by. */
export interface PackageJson {
  main: string | null;
  scripts: Record<string, string>;
  /** As written, such as `pnpm@10.1.0`. */
  packageManager: string | null;
  hasDependencies: boolean;
}

/**
 * What the worktree at `root` (a real path) holds now. A build may turn a Worker into a site, so ask again after it.
 * @returns `null` when nothing of it can be deployed
 */
export function findProject(root: string): Project | null {
  const config = CONFIG_FILES.map((name) => join(root, name)).find(isFile);
  if (config !== undefined) {
    if (!isInside(root, config)) throw leaves(root, config);
    return { kind: 'wrangler', config };
  }
  if (redirectedConfig(root) !== null) return { kind: 'wrangler', config: null };
  const site = SITE_DIRECTORIES.find((name) => isFile(join(root, name, 'index.html')));
  if (site !== undefined) return { kind: 'site', directory: join(root, site) };
  const main = readPackageJson(root)?.main;
  const entries = main ? [main, ...ENTRY_FILES] : ENTRY_FILES;
  const entry = entries.map((name) => join(root, name)).find(isFile);
  if (entry === undefined) return null;
  if (!isInside(root, entry)) throw leaves(root, entry);
  return { kind: 'worker', main: entry };
}

/** Whether a site is only the pages of a Node server: they are not built, and the package starts with Node. */
export function isPartOfServer(root: string, site: string): boolean {
  const start = readPackageJson(root)?.scripts.start ?? '';
  return ['public', '.'].includes(show(root, site)) && NODE_COMMAND.test(start);
}

/** The failure of a worktree in which `findProject` found nothing. */
export function nothingDeployable(root: string): BuildFailure {
  const folders = SITE_DIRECTORIES.slice(0, -1).map((name) => `${name}/`);
  const places = [
    CONFIG_FILES.join(', '),
    `then index.html in ${folders.join(', ')} or the root`,
    `then a Worker in package.json's "main", ${ENTRY_FILES.join(' or ')}`,
  ];
  const start = readPackageJson(root)?.scripts.start;
  const server = start === undefined ? '' : `. "start" of package.json is not run${SERVER_ADVICE}`;
  return new BuildFailure(`nothing to deploy: looked for ${places.join('; ')}${server}`);
}

/**
 * Reads `package.json`.
 * @returns `null` when there is none
 * @throws {BuildFailure} when it is no file with a JSON object in it
 */
export function readPackageJson(root: string): PackageJson | null {
  const path = join(root, 'package.json');
  if (!lstatSync(path, { throwIfNoEntry: false })) return null;
  if (!isInside(root, path)) throw leaves(root, path);
  // What a script leaves in its place, such as a pipe, would be read for ever.
  if (!isFile(path)) throw new BuildFailure('package.json is no file');
  if (statSync(path).size > PACKAGE_JSON_BYTES)
    throw new BuildFailure(`package.json has more than ${PACKAGE_JSON_BYTES / 2 ** 20} MiB`);
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new BuildFailure(`package.json is not valid JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BuildFailure('package.json must hold an object');
  }
  const json = value as Record<string, unknown>;
  const isFilled = (name: string) => Object.keys((json[name] as object | null | undefined) ?? {}).length > 0;
  return {
    main: typeof json.main === 'string' ? json.main : null,
    scripts: Object.fromEntries(
      Object.entries((json.scripts ?? {}) as Record<string, unknown>).filter(
        ([, script]) => typeof script === 'string',
      ),
    ) as Record<string, string>,
    packageManager: typeof json.packageManager === 'string' ? json.packageManager : null,
    hasDependencies: ['dependencies', 'devDependencies', 'optionalDependencies', 'workspaces'].some(isFilled),
  };
}

function leaves(root: string, path: string): BuildFailure {
  return new BuildFailure(`${show(root, path)} is a link that leaves the project`);
}

/** False for what cannot be looked at too, such as a link to itself. */
function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
