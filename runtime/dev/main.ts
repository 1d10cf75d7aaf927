// The process of `cellar dev`. The CLI starts it, with its options as JSON. It ends with the CLI, or by a signal.
import { reason } from '../log.ts';
import { Dev, type DevOptions } from './dev.ts';

process.umask(0o077);
const options = JSON.parse(process.argv[2]!) as DevOptions;

function fail(error: unknown): never {
  const { code, port } = error as NodeJS.ErrnoException & { port?: number };
  const option = port === options.inspect && port !== options.port ? '--inspect' : '--port';
  const words = code === 'EADDRINUSE' ? `port ${port} is in use: name another with ${option}` : reason(error);
  process.stderr.write(`cellar: ${words}\n`);
  process.exit(1);
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
  // The CLI writes the copy to stdin.
  await dev.start(options.isOnCopy ? process.stdin : null).catch(async (error: unknown) => {
    if (stopping) return;
    await dev.close().catch(() => {});
    fail(error);
  });
} catch (error) {
  fail(error);
}
