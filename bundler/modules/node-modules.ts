// Resolves Node's built-in modules. A module that workerd has stays an import, under its `node:` name. A polyfill replaces
// any other module.
import { builtinModules } from 'node:module';
import { dirname } from 'node:path';
import type { OnResolveResult, Plugin } from 'esbuild';
import { DEFAULT_SINCE, type NodePolyfills } from './node-polyfills.ts';

const REQUIRED = 'required-node-module';
const REQUIRED_PACKAGE = 'required-package';
const GLOBAL = 'node-global';

/** How a Worker uses Node's modules. */
export interface NodeUse {
  /**
   * `null`: no polyfills. Then a package in `node_modules` with a Node module's name takes precedence. So does a
   * package's replacement for browsers.
   */
  polyfills: NodePolyfills | null;
  /** Collects the names of Node's modules that the project imports. */
  used: Set<string>;
}

/** Whether a Worker with this date and these flags may import `node:` modules. */
export function hasNodeModules(compatibilityDate: string, flags: string[]): boolean {
  if (flags.includes('nodejs_compat') || flags.includes('nodejs_compat_v2')) return true;
  return compatibilityDate >= DEFAULT_SINCE && !flags.includes('no_nodejs_compat');
}

/**
 * Returns an esbuild plugin that leaves Node's modules to workerd, or uses a polyfill. `fs` becomes `node:fs`, and a
 * `require` becomes an `import`. With polyfills it also sets Node's globals before the Worker's own code runs.
 */
export function nodeModules({ polyfills, used }: NodeUse): Plugin {
  const names = polyfills?.names ?? builtinModules.filter((name) => !/^(node:|_)/.test(name));
  return {
    name: 'node-modules',
    setup(build) {
      build.onResolve(
        { filter: new RegExp(`^(node:.+|${names.join('|')})$`) },
        async (args): Promise<OnResolveResult | null> => {
          const file = polyfills?.files.get(args.path);
          if (args.namespace === REQUIRED) return file ? { path: file } : { path: args.path, external: true };
          if (args.pluginData === REQUIRED) return null;
          if (polyfills === null) {
            const { kind, importer, resolveDir } = args;
            const found = await build.resolve(args.path, {
              kind,
              importer,
              resolveDir,
              pluginData: REQUIRED,
            });
            // A package replaces the module: `null` makes esbuild resolve it. If a package excludes the found file for
            // browsers, esbuild then loads an empty module. If this returned the path, esbuild would load the file.
            if (found.errors.length === 0) return null;
          }
          const path = args.path.startsWith('node:') ? args.path : `node:${args.path}`;
          if (!polyfills?.has(args.importer)) used.add(path);
          if (args.kind === 'require-call') return { path, namespace: REQUIRED };
          return file ? { path: file } : { path, external: true };
        },
      );
      build.onLoad({ filter: /.*/, namespace: REQUIRED }, ({ path }) => ({
        contents: `import builtin from ${JSON.stringify(path)};\nmodule.exports = builtin;`,
        loader: 'js',
      }));
      if (polyfills) addPolyfills(build, polyfills);
    },
  };
}

type Build = Parameters<Plugin['setup']>[0];

/** Replaces packages that workerd does not need, such as `node-fetch`, and sets globals. */
function addPolyfills(build: Build, { names, files, globals, scripts }: NodePolyfills): void {
  const packages = [...files.keys()].filter((name) => !name.startsWith('node:') && !names.includes(name));
  build.onResolve({ filter: new RegExp(`^(${packages.join('|')})$`) }, ({ path, kind }) => {
    return kind === 'require-call' ? { path, namespace: REQUIRED_PACKAGE } : { path: files.get(path)! };
  });
  // `require` returns the default export, so it must have the named exports as properties.
  build.onLoad({ filter: /.*/, namespace: REQUIRED_PACKAGE }, ({ path }) => ({
    contents: `import * as all from ${JSON.stringify(files.get(path))};
      const { default: value = {}, ...named } = all;
      module.exports = Object.defineProperties(value, Object.getOwnPropertyDescriptors(named));`,
    loader: 'js',
    resolveDir: dirname(files.get(path)!),
  }));
  const modules = new Map([...globals].map(([name, source]) => [`${GLOBAL}:${name}`, source]));
  build.initialOptions.inject = [...modules.keys(), ...scripts];
  build.onResolve({ filter: new RegExp(`^${GLOBAL}:`) }, ({ path }) => ({ path, namespace: GLOBAL }));
  build.onLoad({ filter: /.*/, namespace: GLOBAL }, ({ path }) => ({
    contents: modules.get(path)!,
    loader: 'js',
    resolveDir: import.meta.dirname,
  }));
}
