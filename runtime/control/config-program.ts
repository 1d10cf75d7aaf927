// Has Miniflare write the config of the handlers' workerd, in a process of its own: loaded, Miniflare takes 100 MB of memory.
// The handlers' options are JSON on standard input. `MINIFLARE_WORKERD_PATH` is a program that stores its standard input
// at `CONFIG` and exits with a code other than 0, so that Miniflare does not wait for it to listen.
import { existsSync } from 'node:fs';
import { createRequire, flushCompileCache } from 'node:module';
import { json } from 'node:stream/consumers';
import { type HandlersOptions, miniflareOptions } from './miniflare.ts';

// `import()` would read and parse its 6 MB once more, to detect that they are CommonJS.
const { Miniflare } = createRequire(import.meta.url)('miniflare') as typeof import('miniflare');
flushCompileCache();
const miniflare = new Miniflare(miniflareOptions((await json(process.stdin)) as HandlersOptions));
await miniflare.ready.catch((error: unknown) => {
  if (!existsSync(process.env.CONFIG!)) throw error;
});
// Miniflare's exit handler would remove the directories that the config names.
process.kill(process.pid, 'SIGKILL');
