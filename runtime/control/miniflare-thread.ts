// What runs in the thread of `HandlersThread`: one Miniflare, which is told what to run.
import { createRequire, flushCompileCache } from 'node:module';
import { parentPort } from 'node:worker_threads';
import type { Miniflare } from 'miniflare';
import { reason } from '../log.ts';
import { collectAll } from '../threads/collect-garbage.ts';
import { boundServers, type HandlersOptions, miniflareOptions, tellOfEarlyEnds } from './miniflare.ts';
import { runtimePid } from './runtime-program.ts';

/**
 * `handlers`: to be run in place of those that run; null: nothing more is to be run. `unlessRunning`: only if nothing runs
 * when Miniflare has done what it was at.
 */
export interface ToMiniflare {
  id: number;
  handlers: HandlersOptions | null;
  unlessRunning: boolean;
}

/** That a message was obeyed, or why it could not be; or that workerd had ended and was started again. */
export type FromMiniflare = { id: number; error: string | null } | 'restarted';

boundServers();
tellOfEarlyEnds(process.env.MINIFLARE_WORKERD_PATH!);
// By `require`: `import()` would read and parse its 6 MB once more, to find out that they are CommonJS.
const module = createRequire(import.meta.url)('miniflare') as typeof import('miniflare');
// The host may be killed, and this thread with it.
flushCompileCache();
let miniflare: Miniflare | null = null;

async function obey({ handlers, unlessRunning }: ToMiniflare): Promise<void> {
  if (handlers === null) await end();
  else if (!unlessRunning) await run(handlers);
  else {
    // Miniflare starts a workerd that ended again, and gives up when the new one ends during its start.
    await miniflare?.ready.catch(() => {});
    if (runtimePid() !== null) return;
    await run(handlers);
    tell('restarted');
  }
}

async function run(handlers: HandlersOptions): Promise<void> {
  const options = miniflareOptions(handlers, () => tell('restarted'));
  if (miniflare !== null) {
    await miniflare.setOptions(options);
    return;
  }
  miniflare = new module.Miniflare(options);
  try {
    await miniflare.ready;
    // What loading and starting left is half of the thread's objects, and V8 would not look here again for hours.
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

function tell(message: FromMiniflare): void {
  parentPort!.postMessage(message);
}

parentPort!.on('message', (message: ToMiniflare) => {
  obey(message).then(
    () => tell({ id: message.id, error: null }),
    (error: unknown) => tell({ id: message.id, error: reason(error) }),
  );
});
