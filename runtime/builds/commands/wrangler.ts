// Commands of Wrangler on a project. They run in the sandbox of the project's other commands, because they read and run its files.
import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';

const WRANGLER = dirname(findPackageJSON('wrangler', import.meta.url)!);
const SETTINGS = {
  WRANGLER_SEND_METRICS: 'false',
  WRANGLER_WRITE_LOGS: 'false',
  WRANGLER_HIDE_BANNER: 'true',
};

/** The files that a command of Wrangler reads: its own, and those of its packages. */
export const WRANGLER_FILES = [dirname(WRANGLER)];

/** Returns a command of Wrangler. @param folder below the working directory; the command makes it first if it is missing */
export function wranglerCommand(folder: string, words: string[]): string[] {
  return [
    ...['/bin/sh', '-c', 'mkdir -p "$0" && exec "$@"', folder],
    ...['env', ...Object.entries(SETTINGS).map((entry) => entry.join('='))],
    ...[process.execPath, '--no-warnings', join(WRANGLER, 'wrangler-dist', 'cli.js'), ...words],
  ];
}
