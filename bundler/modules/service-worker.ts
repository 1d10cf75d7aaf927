// Turns Workers in the syntax of service workers, `addEventListener('fetch', …)`, into modules that export handlers.
import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { BuildOptions, Plugin } from 'esbuild';

const PRELUDE = 'cellar:service-worker';
const PRELUDE_TEXT = readFileSync(new URL('./service-worker-prelude.js', import.meta.url), 'utf8');
const LISTENS = /\baddEventListener\s*\(\s*(["'`])(?:fetch|scheduled|queue)\1/;

/** Returns whether the code of a bundle without exports listens to events of a Worker. */
export function isServiceWorker(bundle: string): boolean {
  return LISTENS.test(bundle);
}

/**
 * Returns an entry for esbuild that wraps the script `main` in a module. `plugin` loads the prelude, which the entry
 * imports.
 * @param manifest name of a module whose default export becomes a global variable of this name; `null`: no such module
 */
export function serviceWorkerEntry(
  main: string,
  manifest: string | null,
): {
  stdin: NonNullable<BuildOptions['stdin']>;
  plugin: Plugin;
} {
  const contents =
    manifest === null
      ? PRELUDE_TEXT
      : `import manifest from '${manifest}';\n${PRELUDE_TEXT}\nglobalThis.${manifest} = manifest;\n`;
  return {
    stdin: {
      contents: [
        `import { heard } from ${JSON.stringify(PRELUDE)};`,
        `import ${JSON.stringify(`./${basename(main)}`)};`,
        'export default heard();',
      ].join('\n'),
      resolveDir: dirname(main),
      sourcefile: 'cellar-service-worker.js',
    },
    plugin: {
      name: 'service-worker',
      setup(build) {
        build.onResolve({ filter: new RegExp(`^${PRELUDE}$`) }, ({ path }) => ({ path, namespace: PRELUDE }));
        build.onLoad({ filter: /.*/, namespace: PRELUDE }, () => ({ contents, loader: 'js' }));
      },
    },
  };
}
