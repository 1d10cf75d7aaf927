// The process of `cellar dev`, started by the command line with its options as JSON. It ends with that, or by a signal.
import { once } from 'node:events';
import { reason } from '../log.ts';
import type { Copied } from './copied.ts';
import { Dev, type DevOptions } from './dev.ts';

process.umask(0o077);
const options = JSON.parse(process.argv[2]!) as DevOptions;

function fail(error: unknown): never {
  const { code, port } = error as NodeJS.ErrnoException & { port?: number };
  const words = code === 'EADDRINUSE' ? `port ${port} is in use: name another with --port` : reason(error);
  process.stderr.write(`cellar: ${words}\n`);
  process.exit(1);
}

/** What the command line has copied. */
async function given(): Promise<Copied> {
  const [copied] = (await once(process, 'message')) as [Copied];
  return copied;
}

try {
  const dev = new Dev(options);
  let stopping = false;
  const stop = () => {
    if (stopping) return;
    stopping = true;
    dev.close().then(() => process.exit(0), fail);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  process.on('disconnect', stop);
  const copied = options.isOnCopy ? await given() : null;
  await dev.start(copied).catch(async (error: unknown) => {
    if (stopping) return;
    await dev.close().catch(() => {});
    fail(error);
  });
} catch (error) {
  fail(error);
}
