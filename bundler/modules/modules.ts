// Loads imported files that are not JavaScript. Text is bundled as a string. WebAssembly and data become separate modules,
// because only workerd can load them as a `WebAssembly.Module` or an `ArrayBuffer`.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, matchesGlob, relative, sep } from 'node:path';
import type { OnLoadResult, Plugin } from 'esbuild';
import { BuildFailure } from '../failure.ts';
import { ALL_MODULES_BYTES, MODULE_BYTES } from '../limits.ts';
import { isInside, show } from '../project/path-containment.ts';
import { readProjectFile } from '../project/regular-file.ts';
import { withoutMapsOutside } from '../project/source-maps.ts';
import type { Module } from '../release.ts';
import type { NodePolyfills } from './node-polyfills.ts';

/** A Wrangler module rule: files that match one of `globs` are imported as `type`. The first rule that matches counts. */
export interface Rule {
  type: string;
  globs: string[];
}

/** Wrangler's default rules. A project's own rules come first. */
export const DEFAULT_RULES: Rule[] = [
  { type: 'Text', globs: ['**/*.txt', '**/*.html', '**/*.sql'] },
  { type: 'Data', globs: ['**/*.bin'] },
  { type: 'CompiledWasm', globs: ['**/*.wasm'] },
];
/** Rule types of JavaScript modules. esbuild bundles them, unless `find_additional_modules` copies them. */
const JAVASCRIPT = ['ESModule', 'CommonJS'];
const RESOLVED = 'resolved';
/** End of the error message for an import from outside the project. */
export const OUTSIDE = ' lies outside the project';
const MARK = 'cellar-module:';

/**
 * Returns the type of the first rule that matches `path`. As in Wrangler, wildcards also match names that begin with a dot.
 */
export function typeOf(path: string, rules: Rule[]): string | undefined {
  const shown = withoutLeadingDots(path);
  const matches = (glob: string) => matchesGlob(path, glob) || matchesGlob(shown, withoutLeadingDots(glob));
  return rules.find(({ globs }) => globs.some(matches))?.type;
}

/** Returns a pattern for the text of imports. As in Wrangler, a star in `glob` matches any text, even slashes. */
function importFilter(glob: string): RegExp {
  const parts = glob.split(/\*+/).map((part) => part.replace(/[\\^$.+?()[\]{}|]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`);
}

/** Replaces the leading dot of each hidden name with a private-use character: Node's wildcards do not match the dot. */
function withoutLeadingDots(path: string): string {
  return path.replace(/(?<=^|\/)\.(?=[^./])/g, '\uE000');
}

/**
 * Returns an esbuild plugin that loads files by `rules`, then by Wrangler's default rules. It refuses files outside `root`,
 * except files of `polyfills`.
 * @param root real path of the project
 * @param out directory that the modules are written to
 * @param prefix path of `out` in the release, as in `Module.path`
 * @param modules gets each module written, once
 * @param nodeEnabled from `hasNodeModules`
 */
export function moduleFiles(
  root: string,
  rules: Rule[],
  out: string,
  prefix: string,
  modules: Module[],
  nodeEnabled: boolean,
  polyfills: NodePolyfills | null,
): Plugin {
  const all = [...rules, ...DEFAULT_RULES];
  let kept = 0;
  const read = (path: string) => readProjectFile(root, path, MODULE_BYTES);
  const keep = (path: string, type: 'wasm' | 'data'): string => {
    const bytes = read(path);
    const name = `${createHash('sha256').update(bytes).digest('hex').slice(0, 10)}-${basename(path)}`;
    if (!modules.some((module) => module.name === name)) {
      kept += bytes.length;
      if (kept > ALL_MODULES_BYTES)
        throw new BuildFailure(
          `the WebAssembly and data that the Worker imports have more than ${ALL_MODULES_BYTES / 2 ** 20} MiB`,
        );
      mkdirSync(out, { recursive: true });
      writeFileSync(join(out, name), bytes);
      modules.push({ name, type, path: `${prefix}/${name}` });
    }
    return name;
  };
  return {
    name: 'module-files',
    setup({ onLoad, onResolve, resolve }) {
      const types = new Map<string, string>();
      for (const { type, globs } of rules)
        for (const glob of JAVASCRIPT.includes(type) ? [] : globs)
          onResolve(
            { filter: importFilter(glob) },
            async ({ path, kind, importer, resolveDir, pluginData }) => {
              if (kind === 'entry-point' || pluginData === RESOLVED) return null;
              const asked = path.replace(/\?.*$/, '');
              const found = await resolve(asked, { kind, importer, resolveDir, pluginData: RESOLVED });
              if (found.errors.length > 0) return null;
              types.set(found.path, type);
              return { path: found.path, namespace: found.namespace, external: found.external };
            },
          );
      onResolve({ filter: new RegExp(`^${MARK}`) }, ({ path }) => ({
        path: `./${path.slice(MARK.length)}`,
        external: true,
      }));
      const load = (asked: string): OnLoadResult | undefined => {
        const leftOut = !existsSync(asked) && asked.startsWith(root + sep);
        // A package can exclude a file for browsers by a path without `.js`. For such a path esbuild loads an empty module.
        // But a package that detects Node's `process`, such as iconv-lite, needs the file.
        if (leftOut && !(nodeEnabled && existsSync(`${asked}.js`))) return undefined;
        const path = leftOut ? `${asked}.js` : asked;
        if (!isInside(root, path)) {
          if (polyfills?.has(path)) return undefined;
          return { errors: [{ text: `${show(root, path)}${OUTSIDE}` }] };
        }
        if (leftOut) {
          const bytes = read(path);
          const contents = withoutMapsOutside(root, path, bytes) ?? bytes;
          return { contents, loader: 'js', resolveDir: dirname(path) };
        }
        const type = types.get(path) ?? typeOf(relative(root, path), all);
        if (type === 'Text') return { contents: read(path), loader: 'text' };
        if (type !== 'CompiledWasm' && type !== 'Data') {
          const contents = withoutMapsOutside(root, path, read(path));
          return contents === null ? undefined : { contents, loader: 'default' };
        }
        const name = keep(path, type === 'Data' ? 'data' : 'wasm');
        return { contents: `export { default } from ${JSON.stringify(MARK + name)};`, loader: 'js' };
      };
      onLoad({ filter: /.*/, namespace: 'file' }, ({ path }) => {
        try {
          return load(path);
        } catch (error) {
          // esbuild would report a thrown error as a fault of this plugin.
          if (error instanceof BuildFailure) return { errors: [{ text: error.message }] };
          throw error;
        }
      });
    },
  };
}
