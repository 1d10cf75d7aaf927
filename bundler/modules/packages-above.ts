// Hides packages in folders above the project, such as Cellar's own if the data folder lies inside Cellar's.
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Plugin } from 'esbuild';
import { isInside } from '../project/path-containment.ts';
import type { NodePolyfills } from './node-polyfills.ts';

const MISSING = 'missing-package';
/** Matches an import of a package: `@scope/name` or `name`, with or without a path. Captures the package's name. */
const PACKAGE = /^((?:@[^/]+\/)?[^./][^/]*)(?:\/|$)/;
const LOOKING = { isLooking: true };

/**
 * Returns an esbuild plugin that hides packages in folders above the project. `require` and `import()` of such a package
 * throw at run time, as for a missing package: code detects optional packages this way. The build only warns. `moduleFiles`
 * refuses a static `import` of such a package.
 * @param root real path of the project
 */
export function packagesAbove(root: string, polyfills: NodePolyfills | null): Plugin {
  const above = packageFoldersAbove(root);
  return {
    name: 'packages-above',
    setup(build) {
      if (above.length === 0) return;
      build.onResolve({ filter: PACKAGE }, async ({ path, kind, importer, resolveDir, pluginData }) => {
        if ((kind !== 'require-call' && kind !== 'dynamic-import') || pluginData !== undefined) return null;
        const [, name] = PACKAGE.exec(path)!;
        if (!above.some((folder) => existsSync(join(folder, name!)))) return null;
        const found = await build.resolve(path, { kind, importer, resolveDir, pluginData: LOOKING });
        const isAbove =
          found.errors.length === 0 &&
          !found.external &&
          found.namespace === 'file' &&
          !isInside(root, found.path) &&
          !polyfills?.has(found.path);
        return isAbove ? { path, namespace: MISSING, warnings: [{ text: explanation(path) }] } : null;
      });
      build.onLoad({ filter: /.*/, namespace: MISSING }, ({ path }) => ({
        contents: `throw Object.assign(new Error(${JSON.stringify(explanation(path))}), { code: 'MODULE_NOT_FOUND' });`,
        loader: 'js',
      }));
    },
  };
}

function explanation(path: string): string {
  return `Could not resolve "${path}": if it is a package, add it to the dependencies in package.json`;
}

function packageFoldersAbove(root: string): string[] {
  const folders: string[] = [];
  for (let path = root; dirname(path) !== path; ) {
    path = dirname(path);
    const folder = join(path, 'node_modules');
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) folders.push(folder);
  }
  return folders;
}
