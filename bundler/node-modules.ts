// Node's own modules, as workerd has them: only under their `node:` names, only by `import`.
import { builtinModules } from 'node:module';
import type { OnResolveResult, Plugin } from 'esbuild';

/** Since this compatibility date workerd offers Node's modules without a flag. */
const DEFAULT_SINCE = '2026-08-04';
const REQUIRED = 'required-node-module';

/** Whether a Worker with this date and these flags may import `node:` modules. */
export function hasNodeModules(compatibilityDate: string, flags: string[]): boolean {
  if (flags.includes('nodejs_compat') || flags.includes('nodejs_compat_v2')) return true;
  return compatibilityDate >= DEFAULT_SINCE && !flags.includes('no_nodejs_compat');
}

/**
 * An esbuild plugin that leaves Node's modules to workerd: `fs` becomes `node:fs`, and a `require` of one an `import`.
 * @param enabled from `hasNodeModules`; without it a package of the same name in `node_modules` is taken if there is one
 * @param used gets the name of each module left to workerd
 */
export function nodeModules(enabled: boolean, used: Set<string>): Plugin {
  const names = builtinModules.filter((name) => !/^(node:|_)/.test(name)).join('|');
  return {
    name: 'node-modules',
    setup(build) {
      build.onResolve(
        { filter: new RegExp(`^(node:.+|${names})$`) },
        async (args): Promise<OnResolveResult | null> => {
          if (args.namespace === REQUIRED) return { path: args.path, external: true };
          if (!enabled && !args.path.startsWith('node:') && args.pluginData !== REQUIRED) {
            const { kind, importer, resolveDir } = args;
            const found = await build.resolve(args.path, {
              kind,
              importer,
              resolveDir,
              pluginData: REQUIRED,
            });
            if (found.errors.length === 0)
              return { path: found.path, namespace: found.namespace, external: found.external };
          }
          if (args.pluginData === REQUIRED) return null;
          const path = args.path.startsWith('node:') ? args.path : `node:${args.path}`;
          used.add(path);
          return args.kind === 'require-call' ? { path, namespace: REQUIRED } : { path, external: true };
        },
      );
      build.onLoad({ filter: /.*/, namespace: REQUIRED }, ({ path }) => ({
        contents: `import builtin from ${JSON.stringify(path)};\nmodule.exports = builtin;`,
        loader: 'js',
      }));
    },
  };
}
