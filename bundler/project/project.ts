// Detects the kind of project in a worktree, and reads its package.json.
import { lstatSync, readdirSync, statSync } from 'node:fs';
import { join, sep } from 'node:path';
import { redirectedConfig } from '../configuration/redirect.ts';
import { deployScript, MANAGERS } from '../deploy-script/deploy-script.ts';
import type { DeployCall } from '../deploy-script/wrangler-call.ts';
import { BuildFailure } from '../failure.ts';
import { CONFIG_BYTES } from '../limits.ts';
import { PAGES_WORKER } from './cloudflare-pages.ts';
import { foldersOf } from './folders.ts';
import { findPages, type PageFolders, writtenPages } from './pages.ts';
import { insidePath, isInside, isThere, pathWithin, show } from './path-containment.ts';
import { inFolder, type Place } from './place.ts';
import { readHead, readJsonText } from './regular-file.ts';

/** Usual folders of a static site's `index.html`, besides the root. Folders that tools write come first. */
const SITE_DIRECTORIES = ['dist', 'build', 'out', 'public'];
/** Folders into which frameworks write a Pages project. Not all of them have an `index.html`. */
const PAGES_DIRECTORIES = [...SITE_DIRECTORIES, '.svelte-kit/cloudflare'];
/** Configurations of tools that build a site from sources. */
const SITE_TOOLS =
  /^(?:(?:vite|webpack|rollup|rolldown|astro|svelte|nuxt|next|vue|rsbuild|rspack|docusaurus|quasar)\.config\.[cm]?[jt]s|angular\.json|\.parcelrc)$/;
/** Programs outside npm that build a site from sources. `output` is the folder that they write. */
const SITE_GENERATORS = [
  { name: 'Hugo', config: /^hugo\.(?:toml|ya?ml|json)$/, command: 'hugo', output: 'public' },
  { name: 'Jekyll', config: /^_config\.(?:ya?ml|toml)$/, command: 'jekyll build', output: '_site' },
  { name: 'MkDocs', config: /^mkdocs\.ya?ml$/, command: 'mkdocs build', output: 'site' },
  { name: 'mdBook', config: /^book\.toml$/, command: 'mdbook build', output: 'book' },
];
/** Matches a page that loads sources, which a tool must compile. */
const SOURCE_PAGE = /<script\b[^<>]*\bsrc=["']?[^"'=>\s]+\.(?:tsx?|mts|jsx|vue|svelte)\b/i;
/** Matches a page with front matter, such as a page of Jekyll. */
const FRONT_MATTER = /^---\r?\n/;
/** Bytes to read from the start of a page. */
const PAGE_BYTES = 256 * 1024;
/** The names of Wrangler's configuration, in order of preference. */
export const CONFIG_FILES = ['wrangler.json', 'wrangler.jsonc', 'wrangler.toml'];
/** A command that runs a program of the project in Node, with or without variables before it. */
const NODE_COMMAND = /^(?:\w+=\S*\s+)*(?:node|nodemon|tsx|ts-node)\s/;
const DEPENDENCIES = ['dependencies', 'devDependencies', 'optionalDependencies'];
/** Maximum folders in a message. */
const FOLDERS_NAMED = 20;
const ENTRY_FILES = ['index.ts', 'index.js'];
/** Packages of frameworks that render on a server, and need an adapter for Cloudflare with a Wrangler configuration. */
const SERVER_FRAMEWORKS = [
  '@react-router/dev',
  '@remix-run/dev',
  '@solidjs/start',
  '@sveltejs/kit',
  '@tanstack/react-start',
  '@tanstack/solid-start',
  '@builder.io/qwik-city',
  'astro',
  'next',
  'nuxt',
  'waku',
];
/** Packages with which a project of a server framework becomes a site or a Worker without `wrangler setup`. */
export const ADAPTERS = [
  '@astrojs/cloudflare',
  '@cloudflare/vite-plugin',
  '@sveltejs/adapter-cloudflare',
  '@sveltejs/adapter-cloudflare-workers',
  '@sveltejs/adapter-static',
  '@tanstack/nitro-v2-vite-plugin',
  'nitro',
  'nitro-nightly',
  'nitropack',
  'vinxi',
];

/** Advice for the author of a Node server. Follows text that names the server. */
export const SERVER_ADVICE =
  ", and a Worker has no port to listen on: export a handler, `export default { fetch(request) {…} }`, or keep the server and add `import { httpServerHandler } from 'cloudflare:node'; export default httpServerHandler({ port })` with the port it listens on";

export type Project =
  /**
   * `config` is the path of the project's own Wrangler configuration. `null`: its build wrote the only one, or all settings
   * are in `call`, from a script of package.json.
   */
  | { kind: 'wrangler'; config: string | null; call: DeployCall | null }
  /** `directory` is the absolute path of the static files. */
  | { kind: 'site'; directory: string }
  | { kind: 'worker'; main: string };

const NO_PACKAGE: PackageJson = {
  name: null,
  main: null,
  scripts: {},
  packageManager: null,
  devManager: null,
  pnpmRange: null,
  hasDependencies: false,
  isForDevelopment: false,
  workspaces: [],
  dependencies: [],
};

/** A package manager as `devEngines.packageManager` names it. `range` of versions, such as `^11.0.0`; `null`: any. */
export interface DevManager {
  name: (typeof MANAGERS)[number];
  range: string | null;
}

/** The parts of `package.json` that a build uses. */
export interface PackageJson {
  name: string | null;
  main: string | null;
  scripts: Record<string, string>;
  /** As written, such as `pnpm@10.1.0`. */
  packageManager: string | null;
  /** The first package manager in `devEngines.packageManager` that a build can use; `null`: none. */
  devManager: DevManager | null;
  /** `engines.pnpm`: the versions with which pnpm installs the project; `null`: any. */
  pnpmRange: string | null;
  hasDependencies: boolean;
  /** Whether the project has `devDependencies`, and neither other dependencies nor workspaces. */
  isForDevelopment: boolean;
  /** The globs of its workspaces, as written. */
  workspaces: string[];
  /** Name and version range of each dependency, also of `devDependencies` and `optionalDependencies`. */
  dependencies: [name: string, version: string][];
}

/**
 * Detects the kind of project in a folder. A build may turn a Worker into a site, so call this again after the build.
 * @param before the result of `siteFolders` before the build; `null` without a build, and before it
 * @param output the setting `output_directory`: the site's folder
 * @param hasBuild whether a setting names the build command, so that a page may wait for its build
 * @returns `null` when nothing can be deployed
 * @throws {BuildFailure} when it is not clear what to deploy
 */
export function findProject(
  place: Place,
  before: PageFolders | null,
  output: string | null,
  hasBuild = false,
): Project | null {
  const { root, folder } = place;
  const manifest = packageJsonOf(place);
  const call = deployScript(manifest?.scripts ?? {})?.call ?? null;
  const paths = CONFIG_FILES.map((name) => join(folder, name));
  const within = (path: string) => pathWithin(root, folder, path, `"${call!.script}" of package.json`);
  if (call?.config) paths.splice(call.isCertain ? 0 : paths.length, 0, within(call.config));
  // The build may write a configuration to the folder in which the script runs Wrangler.
  else if (call?.isCertain && output === null && call.folder !== '.')
    paths.push(...CONFIG_FILES.map((name) => within(join(call.folder, name))));
  const config = paths.find((path) => isFile(root, path));
  if (config !== undefined) return { kind: 'wrangler', config, call };
  if (redirectedConfig(place, false) !== null) return { kind: 'wrangler', config: null, call };
  const named = output ?? call?.pages ?? null;
  if (named !== null) {
    const what = output === null ? `"${call!.script}" of package.json` : 'output_directory';
    const directory = pathWithin(root, folder, named, what);
    return isDirectory(root, directory)
      ? { kind: 'site', directory: insidePath(root, folder, named, what) }
      : null;
  }
  if (call !== null && [call.main, call.config, call.assets].some((each) => each !== null))
    return { kind: 'wrangler', config: null, call };
  const entries = manifest?.main ? [manifest.main, ...ENTRY_FILES] : ENTRY_FILES;
  const entry = entries
    .map((name) => join(folder, name))
    .find((path) => path.startsWith(root + sep) && isFile(root, path));
  const site = before === null ? sourceSite(place, manifest, hasBuild) : builtSite(place, before, entry);
  if (site !== null) return { kind: 'site', directory: join(folder, site) };
  if (entry !== undefined) return { kind: 'worker', main: entry };
  const only = before === null ? onlySite(place, manifest) : null;
  return only === null ? null : { kind: 'site', directory: join(folder, only) };
}

/** Returns whether a project has a Wrangler configuration, or names one that a build wrote. */
export function hasConfig(place: Place): boolean {
  const { root, folder } = place;
  return (
    CONFIG_FILES.some((name) => isFile(root, join(folder, name))) || redirectedConfig(place, false) !== null
  );
}

/** Returns the folders with an `index.html`, to compare with those after the build. */
export function siteFolders({ folder }: Place): PageFolders {
  return findPages(folder, SITE_DIRECTORIES);
}

/**
 * Returns the folder of a site that needs no build, relative to the project's folder; `null` without such a site.
 * @throws {BuildFailure} when the site needs a build, and the project has none
 */
function sourceSite({ root, folder }: Place, manifest: PackageJson | null, hasBuild: boolean): string | null {
  const generator = siteGenerator(folder);
  const site = [...SITE_DIRECTORIES, ...(generator ? [generator.output] : [])].find((name) =>
    isFile(root, join(folder, name, 'index.html')),
  );
  if (site !== undefined) return site;
  if (manifest?.scripts.build !== undefined) return null;
  if (!isFile(root, join(folder, 'index.html'))) return isFile(root, join(folder, PAGES_WORKER)) ? '.' : null;
  const page = () => readPage(root, join(folder, 'index.html'));
  const tool = readdirSync(folder).find((name) => SITE_TOOLS.test(name));
  const sign = tool === undefined ? signOfSource(page()) : `belongs to ${tool}`;
  if (sign === null) return '.';
  if (hasBuild) return null;
  const advice =
    generator?.advice ?? `nothing builds it: add a script "build" to package.json, or ${nameFolder('.')}`;
  throw new BuildFailure(`index.html in the root ${sign}, and ${advice}`);
}

/** Returns the site generator whose configuration is in a folder, and advice on how to deploy its site; `null` without one. */
function siteGenerator(folder: string): { output: string; advice: string } | null {
  const names = readdirSync(folder);
  for (const { name, config, command, output } of SITE_GENERATORS) {
    const file = names.find((each) => config.test(each));
    if (file === undefined) continue;
    const advice = `nothing runs ${name}, which ${file} is for: commit the folder ${output}/ that \`${command}\` writes, or install ${name} in /usr/local/bin of the server and set \`cellar builds set --build-command ${typed(command)} --output-directory ${output}\``;
    return { output, advice };
  }
  return null;
}

/** Returns why a page is a source that a tool must build; `null`: it is not. */
function signOfSource(page: string): string | null {
  if (SOURCE_PAGE.test(page)) return 'names a script that browsers cannot run';
  return FRONT_MATTER.test(page) ? 'begins with front matter' : null;
}

/** Whether a page is a template. Vue also uses `{{`, but only in the body of a page, whose tag may be missing. */
function isTemplate(page: string): boolean {
  return page.includes('{%') || page.split(/<(?:body|div|main|section|h1|p)\b/i)[0]!.includes('{{');
}

function readPage(root: string, path: string): string {
  return readHead(root, path, PAGE_BYTES).toString('utf8');
}

/**
 * Returns the only folder directly in the project's folder with an `index.html` that needs no build; `null` without such a
 * folder. `wrangler deploy` without a configuration deploys this folder too.
 * @throws {BuildFailure} when there are several
 */
function onlySite(place: Place, manifest: PackageJson | null): string | null {
  const { root, folder } = place;
  const { build, start = '' } = manifest?.scripts ?? {};
  const names = readdirSync(folder);
  const needsTools =
    build !== undefined ||
    NODE_COMMAND.test(start) ||
    names.some((name) => SITE_TOOLS.test(name)) ||
    siteGenerator(folder) !== null;
  if (needsTools || wranglerFolders(folder).length > 0) return null;
  const pages = Object.keys(findPages(folder, [])).filter((path) => {
    if (path.includes(sep) || isFile(root, join(folder, path, 'package.json'))) return false;
    const page = readPage(root, join(folder, path, 'index.html'));
    return signOfSource(page) === null && !isTemplate(page);
  });
  if (pages.length > 1)
    throw new BuildFailure(
      `index.html lies in ${pages.map((path) => `${path}/`).join(', ')}, and Cellar cannot tell which folder to deploy: ${nameFolder(pages[0]!)}`,
    );
  return pages[0] ?? null;
}

/**
 * Returns the folder of the site that the build wrote, else of a site that existed before; `null` without a site. The
 * path is relative to the project's folder.
 * @param entry absolute path of the project's Worker, if there is one
 * @throws {BuildFailure} when it is not clear which folder is the site
 */
function builtSite(place: Place, before: PageFolders, entry: string | undefined): string | null {
  const { root, folder } = place;
  const written = writtenPages(before, siteFolders(place));
  const known = SITE_DIRECTORIES.find((name) => written.includes(name));
  if (known !== undefined) return known;
  const pages = PAGES_DIRECTORIES.find((name) => isThere(root, join(folder, name, PAGES_WORKER)));
  if (pages !== undefined && written.every((path) => path.startsWith(`${pages}/`))) return pages;
  const places = [...written.map((path) => `${path}/index.html`), ...(entry ? [show(root, entry)] : [])];
  if (written.length > 0 && places.length > 1)
    throw new BuildFailure(
      `the build wrote ${written.map((path) => `${path}/`).join(', ')}. Cellar cannot tell whether to deploy ${places.join(' or ')}: ${nameFolder(written[0]!)}`,
    );
  if (written.length === 1) return written[0]!;
  const site = SITE_DIRECTORIES.find((name) => isFile(root, join(folder, name, 'index.html')));
  if (site !== undefined) return site;
  if (!isFile(root, join(folder, 'index.html'))) return null;
  throw new BuildFailure(
    `the build wrote no folder with an index.html, and the root has the project's sources: ${nameFolder('dist')}`,
  );
}

/** Quotes a path for the shell. */
function typed(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** Returns advice on how to set the site's folder. */
function nameFolder(folder: string): string {
  const directory = folder === '.' ? '.' : `./${folder}`;
  return `name the folder to serve, with \`cellar builds set --output-directory ${typed(folder)}\` or in the app's settings, or in a wrangler.jsonc: { "name": "my-site", "assets": { "directory": "${directory}" } }`;
}

/**
 * Returns whether a site is probably a part of a Node server: it is `public/` or the project's folder, and `start` runs
 * Node.
 */
export function isPartOfServer(place: Place, site: string): boolean {
  const start = packageJsonOf(place)?.scripts.start ?? '';
  return ['public', '.'].includes(show(place.folder, site)) && NODE_COMMAND.test(start);
}

/** Returns the failure for a folder in which `findProject` found nothing. */
export function nothingDeployable(place: Place, output: string | null): BuildFailure {
  if (output !== null)
    return new BuildFailure(
      `output_directory: there is no ${output}, where the site should be: change it with \`cellar builds set\` or in the app's settings`,
    );
  // Throws when the build named the configuration that it writes, and did not write it.
  redirectedConfig(place, true);
  const others = wranglerFolders(place.folder);
  if (others.length > 0) return unnamedFolder(others);
  const folders = SITE_DIRECTORIES.map((name) => `${name}/`);
  const places = [
    CONFIG_FILES.join(', '),
    `then index.html in ${folders.join(', ')} or the root, or in the only folder with one`,
    `then a Worker in package.json's "main", ${ENTRY_FILES.join(' or ')}`,
  ];
  const manifest = packageJsonOf(place);
  const adapter = ADAPTERS.find((name) => dependsOn(manifest, name));
  if (adapter !== undefined)
    return new BuildFailure(
      `nothing to deploy: ${adapter} wrote no Wrangler configuration, and no index.html or ${PAGES_WORKER} in ${PAGES_DIRECTORIES.map((name) => `${name}/`).join(', ')}: set output_directory to the folder that it writes, with \`cellar builds set --output-directory FOLDER\` or in the app's settings`,
    );
  const framework = SERVER_FRAMEWORKS.find((name) => dependsOn(manifest, name));
  if (framework !== undefined)
    return new BuildFailure(
      `nothing to deploy: ${framework} wrote no site, and renders on a server only with its adapter for Cloudflare: run \`npx wrangler setup\` in the project, and commit what it writes`,
    );
  const apps = frameworkFolders(place);
  if (apps.length > 0) return unnamedFolder(apps, 'projects of frameworks');
  const start = manifest?.scripts.start;
  const generator = siteGenerator(place.folder);
  if (generator !== null && start === undefined)
    return new BuildFailure(`nothing to deploy: ${generator.advice}`);
  const server = start === undefined ? '' : `. "start" of package.json is not run${SERVER_ADVICE}`;
  return new BuildFailure(`nothing to deploy: looked for ${places.join('; ')}${server}`);
}

/** Returns the folders below `folder` that have a Wrangler configuration, relative to it. */
export function wranglerFolders(folder: string): string[] {
  const found: string[] = [];
  for (const { path, names } of foldersOf(folder))
    if (path !== '' && CONFIG_FILES.some((name) => names.includes(name))) found.push(path);
  return found;
}

/**
 * Returns the folders below a project's folder whose package.json names a framework of `SERVER_FRAMEWORKS`, relative to it.
 */
function frameworkFolders(place: Place): string[] {
  const found: string[] = [];
  for (const { path, names } of foldersOf(place.folder)) {
    if (path === '' || !names.includes('package.json')) continue;
    const manifest = readPackageJson(place.root, inFolder(place, join(path, 'package.json')));
    if (SERVER_FRAMEWORKS.some((name) => dependsOn(manifest, name))) found.push(path);
  }
  return found;
}

/**
 * Returns the failure for a repository with several projects in folders, when no setting names one of them.
 * @param what what the folders contain
 */
export function unnamedFolder(folders: string[], what = 'Wrangler configurations'): BuildFailure {
  const named = folders.slice(0, FOLDERS_NAMED).join(', ');
  const rest = folders.length > FOLDERS_NAMED ? ` and ${folders.length - FOLDERS_NAMED} more` : '';
  return new BuildFailure(
    `the repository's root has nothing to deploy, and ${what} lie in ${named}${rest}: say which is the app, with \`cellar builds set --root-directory ${typed(folders[0]!)}\` or in the app's settings`,
  );
}

/** Whether a package.json has this package as a dependency. */
export function dependsOn(manifest: PackageJson | null, dependency: string): boolean {
  return manifest?.dependencies.some(([name]) => name === dependency) ?? false;
}

/** Reads the `package.json` of a project. `Place.deployLine` replaces its script `deploy`. See `readPackageJson`. */
export function packageJsonOf(place: Place): PackageJson | null {
  const manifest = readPackageJson(place.root, inFolder(place, 'package.json'));
  const { deployLine } = place;
  if (!deployLine) return manifest;
  return { ...(manifest ?? NO_PACKAGE), scripts: { ...manifest?.scripts, deploy: deployLine } };
}

/**
 * Reads a `package.json`.
 * @param name its path from the root
 * @returns `null` when there is none
 * @throws {BuildFailure} when it is not a file with a JSON object, or is a link that leaves the project
 */
export function readPackageJson(root: string, name = 'package.json'): PackageJson | null {
  const path = join(root, name);
  if (!lstatSync(path, { throwIfNoEntry: false })) return null;
  if (!isInside(root, path)) throw leaves(root, path);
  const text = readJsonText(root, path, CONFIG_BYTES);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new BuildFailure(`${name} is not valid JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BuildFailure(`${name} must hold an object`);
  }
  const json = value as Record<string, unknown>;
  const entriesOf = (key: string) => Object.entries((json[key] as object | null | undefined) ?? {});
  return {
    name: typeof json.name === 'string' ? json.name : null,
    main: typeof json.main === 'string' ? json.main : null,
    scripts: Object.fromEntries(
      entriesOf('scripts').filter(([, script]) => typeof script === 'string'),
    ) as Record<string, string>,
    packageManager: typeof json.packageManager === 'string' ? json.packageManager : null,
    devManager: devManagerOf(json.devEngines),
    pnpmRange: pnpmRangeOf(json.engines),
    workspaces: workspacesOf(json.workspaces),
    hasDependencies: [...DEPENDENCIES, 'workspaces'].some((key) => entriesOf(key).length > 0),
    isForDevelopment: [...DEPENDENCIES, 'workspaces'].every(
      (key) => (key === 'devDependencies') === entriesOf(key).length > 0,
    ),
    dependencies: DEPENDENCIES.flatMap(entriesOf).map(([name, version]) => [name, String(version)]),
  };
}

/** Reads `devEngines.packageManager`: an object, or a list of objects. */
function devManagerOf(devEngines: unknown): DevManager | null {
  const named = [(devEngines as { packageManager?: unknown } | null | undefined)?.packageManager].flat();
  for (const each of named as ({ name?: unknown; version?: unknown } | null | undefined)[]) {
    const name = MANAGERS.find((manager) => manager === each?.name);
    if (name !== undefined) return { name, range: typeof each?.version === 'string' ? each.version : null };
  }
  return null;
}

function pnpmRangeOf(engines: unknown): string | null {
  const range = (engines as { pnpm?: unknown } | null | undefined)?.pnpm;
  return typeof range === 'string' ? range : null;
}

/** Reads `workspaces`: a list, or Yarn's object with the list `packages`. */
function workspacesOf(value: unknown): string[] {
  const list = Array.isArray(value) ? value : (value as { packages?: unknown } | null | undefined)?.packages;
  return Array.isArray(list) ? list.map(String) : [];
}

/**
 * Returns the failure for a project whose configuration and setting `output_directory` both name what to deploy.
 * @param file the Wrangler configuration, as shown
 */
export function misnamedConfiguration(file: string): BuildFailure {
  return new BuildFailure(
    `output_directory is set, but ${file} says what is deployed: unset output_directory with \`cellar builds set --output-directory default\`, or name the folder as "assets.directory" in ${file}`,
  );
}

function leaves(root: string, path: string): BuildFailure {
  return new BuildFailure(`${show(root, path)} is a link that leaves the project`);
}

function isDirectory(root: string, path: string): boolean {
  return isThere(root, path) && statSync(path).isDirectory();
}

function isFile(root: string, path: string): boolean {
  return isThere(root, path) && statSync(path).isFile();
}
