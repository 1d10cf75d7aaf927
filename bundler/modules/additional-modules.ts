// Modules that a Worker imports by name at run time (`find_additional_modules`): files that match its rules are copied
// beside the bundle, unchanged.
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import type { Plugin } from 'esbuild';
import { BuildFailure } from '../failure.ts';
import { ALL_MODULES_BYTES, MODULE_BYTES } from '../limits.ts';
import { foldersOf } from '../project/folders.ts';
import { isThere, show } from '../project/path-containment.ts';
import { readProjectFile } from '../project/regular-file.ts';
import type { Module } from '../release.ts';
import { DEFAULT_RULES, type Rule, typeOf } from './modules.ts';

/** Maximum depth of the folder search. */
const DEPTH = 20;
/** Maximum modules of one Worker. */
const MODULES = 2_000;
const TYPES: Record<string, Module['type']> = {
  ESModule: 'esm',
  CommonJS: 'commonjs',
  Text: 'text',
  Data: 'data',
  CompiledWasm: 'wasm',
};

/**
 * Copies the files below `base` that match a rule. The plugin leaves imports of them unbundled.
 * @param root real path of the repository
 * @param base absolute folder that module names are relative to
 * @param main absolute path of the Worker's entry, which is not copied
 * @param out directory that the modules are copied to
 * @param prefix path of `out` in the release, as in `Module.path`
 * @throws {BuildFailure} when there are too many files or bytes, or a file cannot be read
 */
export function additionalModules(
  root: string,
  base: string,
  main: string,
  rules: Rule[],
  out: string,
  prefix: string,
): { modules: Module[]; plugin: Plugin } {
  const modules: Module[] = [];
  let bytes = 0;
  const all = [...rules, ...DEFAULT_RULES];
  for (const { path, names } of foldersOf(base, DEPTH))
    for (const name of names.map((each) => join(path, each))) {
      const type = typeOf(name, all);
      const file = join(base, name);
      if (type === undefined || file === main) continue;
      if (!isThere(root, file)) continue;
      const stats = statSync(file);
      if (!stats.isFile()) continue;
      bytes += stats.size;
      if (bytes > ALL_MODULES_BYTES)
        throw new BuildFailure(
          `find_additional_modules: the files in ${show(root, base)} have more than ${ALL_MODULES_BYTES / 2 ** 20} MiB`,
        );
      if (modules.length === MODULES)
        throw new BuildFailure(`find_additional_modules: more than ${MODULES} files in ${show(root, base)}`);
      modules.push({ name, type: TYPES[type]!, path: `${prefix}/${name}` });
    }
  for (const { name } of modules) {
    mkdirSync(dirname(join(out, name)), { recursive: true });
    writeFileSync(join(out, name), readProjectFile(root, join(base, name), MODULE_BYTES));
  }
  const files = new Set(modules.map(({ name }) => join(base, name)));
  return {
    modules,
    plugin: {
      name: 'additional-modules',
      setup(build) {
        build.onResolve({ filter: /^\.{1,2}\// }, ({ path, resolveDir }) => {
          const file = resolve(resolveDir, path);
          return files.has(file) ? { path: `./${relative(base, file)}`, external: true } : null;
        });
      },
    },
  };
}
