// The code of the `HandlersThread`: it controls one Miniflare by messages.
import { createRequire, flushCompileCache } from 'node:module';
import { parentPort } from 'node:worker_threads';
import type { Miniflare } from 'miniflare';
import { reason } from '../log.ts';
import { collectAll } from '../threads/collect-garbage.ts';
import { boundServers, type HandlersOptions, miniflareOptions, reportEarlyExits } from './miniflare.ts';
import { runtimePid } from './runtime-program.ts';

/**
 * `handlers`: replace the running ones; null: stop them. `unlessRunning`: start them only if nothing runs when Miniflare has
 * finished its current work.
 */
export interface ToMiniflare {
  id: number;
  handlers: HandlersOptions | null;
  unlessRunning: boolean;
}

/** The result of a message, with an error if it failed; or the news that workerd had exited and was restarted. */
export type FromMiniflare = { id: number; error: string | null } | 'restarted';

boundServers();
reportEarlyExits(process.env.MINIFLARE_WORKERD_PATH!);
// `import()` would read and parse its 6 MB once more, to detect that they are CommonJS.
const module = createRequire(import.meta.url)('miniflare') as typeof import('miniflare');
// Now, because the host and this thread may be killed.
flushCompileCache();
let miniflare: Miniflare | null = null;

async function handle({ handlers, unlessRunning }: ToMiniflare): Promise<void> {
  if (handlers === null) await end();
  else if (!unlessRunning) await run(handlers);
  else {
    // Miniflare restarts an exited workerd, but gives up when the new one exits during its start.
    await miniflare?.ready.catch(() => {});
    if (runtimePid() !== null) return;
    await run(handlers);
    post('restarted');
  }
}

async function run(handlers: HandlersOptions): Promise<void> {
  const options = miniflareOptions(handlers, () => post('restarted'));
  if (miniflare !== null) {
    await miniflare.setOptions(options);
    return;
  }
  miniflare = new module.Miniflare(options);
  try {
    await miniflare.ready;
    // Loading and starting leave garbage, half of the thread's heap. V8 would not collect it for hours.
    collectAll();
  } catch (error) {
    await end().catch(() => {});
    throw error;
  }
}

async function end(): Promise<void> {
  const ended = miniflare;
  miniflare = null;
  await ended?.dispose();
}

function post(message: FromMiniflare): void {
  parentPort!.postMessage(message);
}

parentPort!.on('message', (message: ToMiniflare) => {
  handle(message).then(
    () => post({ id: message.id, error: null }),
    (error: unknown) => post({ id: message.id, error: reason(error) }),
  );
});
