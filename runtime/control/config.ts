// The config of the control plane's workerd, as Miniflare makes it, and the command that runs it.
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { writeAtomic } from '../disk/data-directory.ts';
import { dieWithParent } from '../isolation/users.ts';
import { runChild } from '../processes/child.ts';
import { quote } from '../processes/shell.ts';
import { compileCache } from '../threads/compile-cache.ts';
import type { HandlersOptions } from './miniflare.ts';

const PROGRAM = new URL('./config-program.ts', import.meta.url).pathname;
const MINIFLARE = createRequire(import.meta.url)('miniflare/package.json').version as string;
/** Miniflare takes about half a second. */
const TIMEOUT_MS = 60_000;
/** Miniflare's names for its sockets: its own entry, and the direct socket of the first Worker. */
const SOCKETS = { entry: 'entry', http: 'direct:0:default' };

/** Returns the path of the control plane's socket. Only the host may have access to the directory. */
export function controlSocket(directory: string): string {
  return join(directory, 'http.sock');
}

/** Returns the path of the config. It has secrets; snapshots leave `tmp` out. */
function configPath(directory: string): string {
  return join(directory, 'tmp', 'workerd.bin');
}

/**
 * Writes the config of the handlers' workerd, unless the last one was made from the same inputs.
 * @param anew makes it in any case
 * @returns whether the last one is reused
 * @throws {Error} why Miniflare could not make it; the signal's reason
 */
export async function writeControlConfig(
  handlers: HandlersOptions,
  signal: AbortSignal,
  anew = false,
): Promise<boolean> {
  const { directory } = handlers;
  const path = configPath(directory);
  const key = hash('sha256', JSON.stringify([handlers, MINIFLARE]));
  if (!anew && readKey(path) === key) return true;
  await make(handlers, path, signal);
  writeAtomic(`${path}.key`, key);
  return false;
}

function readKey(path: string): string | null {
  try {
    return readFileSync(`${path}.key`, 'utf8');
  } catch {
    return null;
  }
}

/** Has Miniflare write the config. Everything else in its directory is removed. */
async function make(handlers: HandlersOptions, path: string, signal: AbortSignal): Promise<void> {
  const temporary = dirname(path);
  const store = join(temporary, 'store');
  rmSync(temporary, { recursive: true, force: true });
  mkdirSync(temporary, { mode: 0o700 });
  const [made, beside] = [quote(path), quote(`${path}.new`)];
  writeFileSync(store, `#!/bin/sh\ncat > ${beside} && mv ${beside} ${made}\nexit 1\n`, { mode: 0o700 });
  const environment = {
    ...compileCache(),
    PATH: process.env.PATH ?? '',
    TMPDIR: temporary,
    MINIFLARE_WORKERD_PATH: store,
    CONFIG: path,
  };
  const words = [...dieWithParent(), process.execPath, PROGRAM];
  const input = JSON.stringify(handlers);
  const options = { title: 'Miniflare', environment, input, timeoutMs: TIMEOUT_MS, signal };
  await runChild(words, options).catch((error: unknown) => {
    // The program ends itself by a signal when the config is complete.
    if (!existsSync(path)) throw error;
  });
}

/** Returns the command that runs the config. The kernel kills the process when the host ends, however it ends. */
export function controlWords(workerd: string, directory: string): string[] {
  const sockets = {
    [SOCKETS.entry]: join(directory, 'entry.sock'),
    [SOCKETS.http]: controlSocket(directory),
  };
  // workerd does not replace the sockets of a killed process.
  for (const path of Object.values(sockets)) rmSync(path, { force: true });
  return [
    ...dieWithParent(),
    workerd,
    ...['serve', '--binary', '--experimental', '--control-fd=3'],
    // Miniflare supports only TCP ports, which every user of the machine can reach.
    ...Object.entries(sockets).map(([name, path]) => `--socket-addr=${name}=unix:${path}`),
    // Miniflare's own server, which nothing here needs.
    `--external-addr=loopback=unix:${join(directory, 'none.sock')}`,
    configPath(directory),
  ];
}

/** The socket that is reported when the handlers serve. */
export const SERVING = SOCKETS.http;
