// Bundles a Worker's sources into modules that workerd loads.
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { type BuildOptions, build, type Message, type Metafile, type Plugin } from 'esbuild';
import { refusePython } from '../configuration/preflight.ts';
import { BuildFailure } from '../failure.ts';
import { MODULE_BYTES } from '../limits.ts';
import { isInside, show } from '../project/path-containment.ts';
import { SERVER_ADVICE } from '../project/project.ts';
import { readProjectFile } from '../project/regular-file.ts';
import type { Module } from '../release.ts';
import { SITE_MANIFEST } from '../workers-site/manifest.ts';
import { additionalModules } from './additional-modules.ts';
import { aliases } from './aliases.ts';
import { moduleFiles, OUTSIDE, type Rule } from './modules.ts';
import { hasNodeModules, nodeModules } from './node-modules.ts';
import { nodePolyfills } from './node-polyfills.ts';
import { packagesAbove } from './packages-above.ts';
import { isServiceWorker, serviceWorkerEntry } from './service-worker.ts';

export interface WorkerSource {
  /** Real path of the project. */
  root: string;
  /** Absolute path of the entry. */
  main: string;
  compatibilityDate: string;
  compatibilityFlags: string[];
  rules: Rule[];
  /** Whether the Worker may import the manifest of Workers Sites. */
  hasSite: boolean;
  /** Absolute folder that names of additional modules are relative to; `null` without such modules. */
  moduleBase: string | null;
  /** The project's replacements of imports, by the import's text. Values are resolved in `aliasFolder`, an absolute path. */
  alias: Record<string, string>;
  aliasFolder: string;
  /** The project's settings of esbuild options. */
  options: Pick<BuildOptions, 'define' | 'minify' | 'keepNames' | 'tsconfig' | 'jsxFactory' | 'jsxFragment'>;
}

const MODULES = 'modules';
const RULE_TYPES = ['Text', 'Data', 'CompiledWasm', 'ESModule', 'CommonJS'];
const NODE_ENV = '"production"';
/** Maximum errors to show: one mistake may cause thousands. */
const MAX_ERRORS = 20;
/** Matches an error without a location that esbuild reports in addition to the error of the failed import. */
const UNREADABLE = /^Cannot read directory /;
/** Matches esbuild's message about an import whose pattern matches no file. Captures the pattern up to its first star. */
const EMPTY_GLOB = /^(?:Could not resolve|The glob pattern) (?:import|require)\("([^"*]*)/;
/** A part of esbuild's advice about an unresolved import. */
const EXTERNAL = ' as external to exclude it ';
/** Matches an import of another module of the bundle, or of a module that workerd has. */
const BESIDE_OR_BUILT_IN = /^\.|^(?:node|cloudflare|workerd):/;
const UNRESOLVED_PACKAGE = /^Could not resolve "((?:@[\w-][\w.-]*\/)?[\w-][\w.-]*)["/]/;

/**
 * Bundles the Worker into `<out>/modules`.
 * @returns the Worker's modules, its entry first; the names that the entry exports; warnings for the log. `isComplete`:
 * every import was found, and there are no warnings
 * @throws {BuildFailure} with esbuild's messages, each with file, line and column
 */
export async function bundleWorker(
  source: WorkerSource,
  out: string,
): Promise<{ modules: Module[]; exports: string[]; warnings: string[]; isComplete: boolean }> {
  const { root, main, compatibilityDate, compatibilityFlags, options } = source;
  refusePython(root, main);
  const unknown = source.rules.find(({ type }) => !RULE_TYPES.includes(type));
  if (unknown) throw new BuildFailure(`rules: type ${unknown.type} is not supported`);
  const name = `${basename(main, extname(main))}.js`;
  const files: Module[] = [];
  const nodeEnabled = hasNodeModules(compatibilityDate, compatibilityFlags);
  const nodeUsed = new Set<string>();
  const polyfills = await nodePolyfills(compatibilityDate, compatibilityFlags);
  const directory = join(out, MODULES);
  const beside =
    source.moduleBase === null
      ? null
      : additionalModules(root, source.moduleBase, main, source.rules, directory, MODULES);
  const bundle = (entry: BuildOptions, more: Plugin[]) =>
    build({
      ...options,
      ...entry,
      absWorkingDir: root,
      outfile: join(out, MODULES, name),
      bundle: true,
      format: 'esm',
      platform: 'browser',
      target: 'es2024',
      // workerd supports this syntax at any compatibility date.
      supported: { 'import-source': true, using: true },
      conditions: ['workerd', 'worker', 'browser'],
      external: ['cloudflare:*', 'workerd:*', ...(source.hasSite ? [SITE_MANIFEST] : [])],
      loader: { '.js': 'jsx', '.mjs': 'jsx', '.cjs': 'jsx' },
      define: {
        'process.env.NODE_ENV': NODE_ENV,
        'global.process.env.NODE_ENV': NODE_ENV,
        'globalThis.process.env.NODE_ENV': NODE_ENV,
        ...options.define,
      },
      charset: 'utf8',
      metafile: true,
      sourcemap: 'external',
      sourcesContent: false,
      logLevel: 'silent',
      plugins: [
        ...more,
        aliases(root, source.aliasFolder, source.alias, polyfills),
        ...(beside ? [beside.plugin] : []),
        nodeModules({ polyfills, used: nodeUsed }),
        packagesAbove(root, polyfills),
        moduleFiles(root, source.rules, join(out, MODULES), MODULES, files, nodeEnabled, polyfills),
      ],
    }).then(
      (built) => {
        if (built.warnings.some((message) => isGlobOutside(root, message))) throw failure(root, built);
        return built;
      },
      (error: { errors?: Message[]; warnings: Message[] }) => {
        throw error.errors ? failure(root, { ...error, errors: error.errors }) : error;
      },
    );
  let result = await bundle({ entryPoints: [main] }, []);
  let exports = entryExports(result.metafile);
  if (exports.length === 0 && isServiceWorker(readFileSync(join(out, MODULES, name), 'utf8'))) {
    const { stdin, plugin } = serviceWorkerEntry(main, source.hasSite ? SITE_MANIFEST : null);
    result = await bundle({ stdin }, [plugin]);
    exports = entryExports(result.metafile);
  }
  if (isNodeServer(root, main, nodeUsed, result.metafile))
    throw new BuildFailure(`${show(root, main)} is a Node server${SERVER_ADVICE}`);
  // A Worker may export only classes. If nothing can call them, its trial start in workerd refuses it later.
  if (exports.length === 0) {
    throw new BuildFailure(
      `${show(root, main)} has no default export: a Worker is a module with \`export default { fetch(request) {…} }\``,
    );
  }
  const entry: Module = { name, type: 'esm', path: `${MODULES}/${name}` };
  nameSources(root, join(out, MODULES), name);
  const warnings = result.warnings.map((message) => explain(root, message));
  // The flag `nodejs_als` provides only this module.
  if (compatibilityFlags.includes('nodejs_als')) nodeUsed.delete('node:async_hooks');
  if (!nodeEnabled && nodeUsed.size > 0) {
    warnings.push(
      `${[...nodeUsed].join(', ')}: not available at compatibility date ${compatibilityDate} unless compatibility_flags has "nodejs_compat"`,
    );
  }
  const modules = [entry, ...files, ...(beside?.modules ?? [])];
  const isComplete = warnings.length === 0 && !Object.values(result.metafile.outputs).some(importsPackage);
  return { modules, exports, warnings: warnings.map((text) => `warning: ${text}`), isComplete };
}

/**
 * Makes source paths in a module's source map relative to the project, because the map outlives the build's directory. Paths
 * of polyfills, which lie in Cellar's own folder, start at `node_modules/`.
 */
function nameSources(root: string, directory: string, name: string): void {
  const path = join(directory, `${name}.map`);
  const map = JSON.parse(readFileSync(path, 'utf8')) as { sources: string[] };
  map.sources = map.sources.map((source) => {
    const path = show(root, join(directory, source));
    return path.startsWith('../') ? source.replace(/^.*(?=node_modules\/)/, '') : path;
  });
  writeFileSync(path, JSON.stringify(map));
}

/**
 * Returns whether a project is probably a Node server. It imports one of Node's network modules. Its entry mentions neither
 * `fetch` nor `cloudflare:node`, and calls `listen()` or is CommonJS. For a CommonJS entry another module may call
 * `listen()`.
 */
function isNodeServer(root: string, main: string, nodeUsed: Set<string>, { inputs }: Metafile): boolean {
  if (!['node:http', 'node:https', 'node:http2', 'node:net'].some((name) => nodeUsed.has(name))) return false;
  const text = readProjectFile(root, main, MODULE_BYTES).toString('utf8');
  const isCommonJs = inputs[show(root, main)]?.format === 'cjs';
  return (isCommonJs || /\.listen\s*\(/.test(text)) && !/\bfetch\b|cloudflare:node/.test(text);
}

/** Returns whether a bundle still imports a package. esbuild leaves such an import if the Worker handles its failure. */
function importsPackage({ imports }: Metafile['outputs'][string]): boolean {
  return imports.some(
    ({ path, external }) => external && path !== SITE_MANIFEST && !BESIDE_OR_BUILT_IN.test(path),
  );
}

function entryExports(metafile: Metafile): string[] {
  return Object.values(metafile.outputs).find((output) => output.entryPoint !== undefined)?.exports ?? [];
}

/**
 * Returns the error for a failed build. An import of a pattern outside the project always gives the same error. So it
 * does not reveal which files exist there.
 */
function failure(
  root: string,
  { errors, warnings }: { errors: Message[]; warnings: Message[] },
): BuildFailure {
  const failed = [
    // Leaves out esbuild's "Cannot read directory". It would reveal whether a path outside the project is a folder.
    ...errors.filter(({ location, text }) => location || !UNREADABLE.test(text)),
    ...warnings.filter((message) => isGlobOutside(root, message)),
  ].sort(byLocation);
  const lines = [...new Set(failed.map((message) => explain(root, message)))];
  const rest = lines.length - MAX_ERRORS;
  return new BuildFailure(
    [...lines.slice(0, MAX_ERRORS), ...(rest > 0 ? [`… and ${rest} more errors`] : [])].join('\n'),
  );
}

function byLocation({ location: a }: Message, { location: b }: Message): number {
  if (a === null || b === null) return Number(a !== null) - Number(b !== null);
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return a.line - b.line || a.column - b.column;
}

/** Whether no file matches an import of a pattern, and the pattern's folder is missing or outside the project. */
function isGlobOutside(root: string, { text, location }: Message): boolean {
  const start = EMPTY_GLOB.exec(text)?.[1];
  if (start === undefined || location === null) return false;
  return !isInside(root, join(root, dirname(location.file), start.slice(0, start.lastIndexOf('/'))));
}

/** Returns `file:line:column: text` and the source line. For a file outside the project, says only that it lies outside. */
function explain(root: string, message: Message): string {
  const { location, text, notes } = asMissing(root, message);
  const more = notes.map((note) => advice(text, note.text)).join('');
  if (!location) return text + more;
  const path = join(root, location.file);
  if (!isInside(root, path)) return show(root, path) + OUTSIDE;
  const where = `${show(root, path)}:${location.line}:${location.column + 1}`;
  const line = location.lineText.trim().slice(0, 200);
  return `${where}: ${text}${line === '' ? '' : `\n  ${line}`}${more}`;
}

/** Reports an import from outside the project, also of a pattern, like a missing file, to hide what exists there. */
function asMissing(root: string, message: Message): Message {
  const { location, text, notes } = message;
  if (location === null || !(text.endsWith(OUTSIDE) || isGlobOutside(root, message))) return message;
  const { lineText, column, length } = location;
  const imported = Buffer.from(lineText).subarray(column + 1, column + length - 1);
  return {
    ...message,
    text: `Could not resolve "${imported}"`,
    notes: [...notes, { text: EXTERNAL, location: null }],
  };
}

/** Returns esbuild's own advice, unless it is for direct users of esbuild. */
function advice(text: string, note: string): string {
  if (!note.includes(EXTERNAL)) return `\n  ${note}`;
  const name = UNRESOLVED_PACKAGE.exec(text)?.[1];
  return name ? `\n  If it is a package, add ${name} to the dependencies in package.json` : '';
}
