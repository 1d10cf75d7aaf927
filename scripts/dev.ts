// `npm run dev`, to develop Cellar itself: starts Cellar, and reloads changed code on every save. Apps do not notice reloads
// of handlers and the control UI. A change of the host's code restarts Cellar with all apps.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Watch } from '../runtime/dev/project/watch.ts';
import type { Reload } from '../runtime/host.ts';
import { log } from '../runtime/log.ts';
import { reloadsFor } from './reloads.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
let host: ChildProcess;
let ending = false;
let restarting: Promise<void> | null = null;

function start(): void {
  const own = spawn(process.execPath, ['runtime/start.js'], {
    cwd: ROOT,
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  host = own;
  own.once('exit', (code) => {
    if (ending) process.exit(code ?? 0);
    if (restarting === null) log('warn', 'Cellar has ended; it starts again at the next save', { code });
  });
}

async function restart(): Promise<void> {
  if (host.exitCode === null && host.signalCode === null) {
    host.kill('SIGTERM');
    await once(host, 'exit');
  }
  if (!ending) start();
}

function saved(paths: string[]): void {
  const reloads = reloadsFor(paths);
  if (reloads.length === 0) return;
  const isDown = host.exitCode !== null || host.signalCode !== null;
  const what = reloads.includes('host') || isDown ? 'host' : reloads.join(' and ');
  log('info', 'saved', { paths: paths.slice(0, 5).join(', '), reloads: what });
  if (what !== 'host') {
    for (const each of reloads) host.send({ reload: each } satisfies { reload: Reload | 'host' });
    return;
  }
  restarting ??= restart().finally(() => {
    restarting = null;
  });
}

start();
const watch = new Watch(ROOT, saved, (error) =>
  log('error', 'watching the sources failed', { error: error.message }),
);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    if (ending) return;
    ending = true;
    watch.close();
    if (host.exitCode !== null || host.signalCode !== null) process.exit(0);
    // A terminal has sent the signal to the host already. A second signal changes nothing.
    host.kill('SIGTERM');
  });
