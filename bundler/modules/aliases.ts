// Replaces imports by `alias` of the project's configuration, as Wrangler does. esbuild's own option also replaces `name/path`,
// refuses relative names, and resolves in the repository's root.
import type { Plugin, ResolveResult } from 'esbuild';
import { isInside, show } from '../project/path-containment.ts';
import type { NodePolyfills } from './node-polyfills.ts';

const ALIASED = 'aliased';

/**
 * Returns an esbuild plugin that resolves an import whose text is a key of `alias` as the value, in `folder`. An alias whose
 * module is missing or outside `root` is an error. It goes before plugins that look up imports.
 * @param root real path of the repository
 * @param folder absolute path of the project's folder
 */
export function aliases(
  root: string,
  folder: string,
  alias: Record<string, string>,
  polyfills: NodePolyfills | null,
): Plugin {
  const isUsable = ({ errors, external, namespace, path }: ResolveResult) =>
    errors.length === 0 &&
    (external || namespace !== 'file' || isInside(root, path) || polyfills?.has(path) === true);
  return {
    name: 'aliases',
    setup(build) {
      build.onResolve({ filter: /.*/ }, async ({ path, kind, importer, pluginData }) => {
        // A call of `build.resolve` by a plugin has `pluginData`: the alias of that import was applied before.
        if (!Object.hasOwn(alias, path) || pluginData !== undefined) return null;
        const name = alias[path]!;
        const found = await build.resolve(name, { kind, importer, resolveDir: folder, pluginData: ALIASED });
        if (isUsable(found)) return found;
        // The same text for a missing module and one outside the project: it must not reveal which files exist there.
        return { errors: [{ text: `alias: "${path}" is "${name}", which is not in ${show(root, folder)}` }] };
      });
    },
  };
}
