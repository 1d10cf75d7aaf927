// Starts the browsers of the browser service, each in its own sandbox. Runs in the host, because the service may not make
// sandboxes.
import { existsSync, mkdirSync, realpathSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Isolation, makeView } from '../isolation/isolation.ts';
import type { User } from '../isolation/users.ts';
import { log, logRarely, reason } from '../log.ts';
import { type Child, type Job, startJob } from '../processes/child.ts';
import { LineReader } from '../processes/lines.ts';
import { behindApps } from '../resources/low-priority.ts';
import { withTaskLimit } from '../resources/process-limits.ts';
import type { BrowserEnd, BrowserRequest } from './messages.ts';
import { sessionSocket } from './messages.ts';

const PROGRAM = new URL('./sandbox-program.js', import.meta.url).pathname;
/** Maximum memory of the processes of a browser, in MiB. */
const MEMORY_MB = 1024;
/** Maximum size of each of the two in-memory directories of a browser's sandbox, in MiB. */
const DIRECTORY_MB = 128;
/** Maximum processes and threads of a browser. */
const TASKS = 512;
/** Maximum browsers of a service at a time. The service itself has a lower limit. */
const BROWSERS = 64;
/** Programs to start in place of Debian's launcher scripts, which add extensions and flags. */
const LAUNCHERS: Record<string, string> = { '/usr/bin/chromium': '/usr/lib/chromium/chromium' };

export interface LauncherOptions {
  /** Path of Chromium. */
  program: string;
  /** Directory of the sandboxes. */
  directory: string;
  /** Directory of the sockets of sessions. */
  sockets: string;
  isolation: Isolation;
  /** Returns the user that runs browsers: another one than the service's user. Null: the host's own user. */
  user: () => User | null;
}

/** A browser that is starting or running. */
interface Browser {
  isWanted: boolean;
  job: Job | null;
}

/** Starts and ends browsers as the service's process asks. Ends all when that process has ended. */
export function serveLaunches(child: Child, options: LauncherOptions): void {
  const browsers = new Map<number, Browser>();
  const end = (browser: Browser) => {
    browser.isWanted = false;
    browser.job?.end();
  };
  child.process.on('message', ({ browser: number, wanted }: Partial<BrowserRequest>) => {
    if (!Number.isSafeInteger(number)) return;
    const known = browsers.get(number!);
    if (!wanted) return known && end(known);
    if (known !== undefined || browsers.size >= BROWSERS || child.hasEnded()) return;
    const browser: Browser = { isWanted: true, job: null };
    browsers.set(number!, browser);
    // A restarted service counts from 1 again, while browsers of its earlier process may still be ending.
    const name = `${child.pid}-${number}`;
    void launch(name, sessionSocket(options.sockets, number!), browser, options)
      .catch((error: unknown) => {
        log('error', 'a browser could not start', { error: reason(error) });
        return 'the browser could not start; the log of this Cellar says why';
      })
      .then((ended) => {
        browsers.delete(number!);
        // The service may have ended meanwhile.
        if (child.process.connected)
          child.process.send({ browser: number!, ended } satisfies BrowserEnd, () => {});
      });
  });
  void child.exited.then(() => {
    for (const browser of browsers.values()) end(browser);
  });
}

/** Starts a browser, and waits until it has ended. @returns why it ended, for the app */
async function launch(
  name: string,
  socket: string,
  browser: Browser,
  options: LauncherOptions,
): Promise<string> {
  const { isolation, directory } = options;
  const user = options.user();
  const sandbox = await isolation.sandbox();
  if (sandbox === null)
    throw new Error(
      "no browser can start, because this machine has no sandbox for builds: see the warning in Cellar's log, and docs/security.md#builds",
    );
  const place = join(directory, name);
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place, { recursive: true, mode: 0o711 });
  const group = await isolation.group(`browser-${name}`, MEMORY_MB + 2 * DIRECTORY_MB, TASKS);
  try {
    const program = LAUNCHERS[options.program] ?? realpathSync(options.program);
    const view = {
      ...makeView(place),
      apartMb: DIRECTORY_MB,
      read: [PROGRAM, dirname(program), socket, ...['/etc/chromium'].filter(existsSync)],
    };
    const uid = process.getuid!();
    const limited = group === null ? await withTaskLimit(user?.uid ?? uid, TASKS, uid !== 0) : [];
    const asked = JSON.stringify({ program, socket, memoryBytes: MEMORY_MB * 2 ** 20 });
    const words = [
      ...behindApps(),
      ...(group?.enter ?? []),
      ...sandbox(view, user),
      ...limited,
      ...[process.execPath, '--max-old-space-size=64', PROGRAM, asked],
    ];
    const environment = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/tmp', LANG: 'C.UTF-8' };
    if (!browser.isWanted) return 'the browser session has ended';
    const job = await startJob(words, { title: 'browser', environment, stdin: 'ignore' });
    browser.job = job;
    if (!browser.isWanted) job.end();
    const { why, failed } = await ended(job);
    if (failed && browser.isWanted) logRarely('warn', 'a browser ended', { why });
    return why;
  } finally {
    await group?.remove();
    // Removes the mount points of the sandbox's directories. The files in these directories were in memory.
    rmSync(place, { recursive: true, force: true });
  }
}

/** Waits until a browser has ended. `why` is the last line that it printed to stderr. */
async function ended(job: Job): Promise<{ why: string; failed: boolean }> {
  let last = '';
  const lines = new LineReader((line) => {
    last = line;
  });
  job.stdout.resume();
  job.stderr.on('data', (chunk: Buffer) => lines.write(chunk));
  const { code } = await job.closed;
  job.end();
  return { why: last || 'the browser ended', failed: code !== 0 };
}
