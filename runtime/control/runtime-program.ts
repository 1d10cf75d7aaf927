// The program that Miniflare runs as its workerd: the real one, on sockets that only the host can reach.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeUnlessSame } from '../disk/data-directory.ts';
import { dieWithParent } from '../isolation/users.ts';
import { quote } from '../processes/shell.ts';

/** Miniflare's names for its sockets: its own entry, and the direct socket of the first Worker. */
const SOCKETS = { entry: 'entry', http: 'direct:0:default' };

/** Returns the path of the control plane's socket. Only the host may have access to the directory. */
export function controlSocket(directory: string): string {
  return join(directory, 'http.sock');
}

/**
 * Writes a wrapper script for workerd into `directory`. The kernel kills workerd when the host ends, however it ends.
 * Miniflare supports only TCP ports, which every user of the machine can reach: the last arguments replace them by unix sockets.
 * @param workerd path of the real program
 * @returns the path of the script
 */
export function writeRuntimeProgram(directory: string, workerd: string): string {
  const sockets = {
    [SOCKETS.entry]: join(directory, 'entry.sock'),
    [SOCKETS.http]: controlSocket(directory),
  };
  const ending = dieWithParent();
  // A session of its own, so that Ctrl-C in the terminal reaches only the host.
  const session = ending.length > 0 ? ['/usr/bin/setsid'] : [];
  const command = [...session, ...ending, workerd];
  const addresses = Object.entries(sockets).map(([name, path]) => `--socket-addr=${name}=unix:${path}`);
  const path = join(directory, 'workerd');
  const script = [
    '#!/bin/sh',
    // Removes the stale sockets of a killed process.
    `rm -f ${quoted(Object.values(sockets))}`,
    `exec ${quoted(command)} "$@" ${quoted(addresses)}`,
  ];
  writeUnlessSame(path, `${script.join('\n')}\n`, 0o700);
  return path;
}

/** Returns the pid of Miniflare's workerd, or null. Miniflare hides it: it is the child with a binary config on stdin. */
export function runtimePid(): number | null {
  for (const child of children()) {
    try {
      const words = readFileSync(`/proc/${child}/cmdline`, 'utf8').split('\0');
      if (words[0]!.endsWith('workerd') && words.includes('--binary')) return Number(child);
    } catch {
      // The process has exited since it was listed.
    }
  }
  return null;
}

/** Returns the pids of child processes. The kernel lists them by the thread that started them. */
function children(): string[] {
  const threads = `/proc/${process.pid}/task`;
  return readdirSync(threads).flatMap((thread) => {
    try {
      return readFileSync(join(threads, thread, 'children'), 'utf8')
        .split(' ')
        .filter(Boolean);
    } catch {
      // The thread has ended since it was listed.
      return [];
    }
  });
}

function quoted(words: string[]): string {
  return words.map(quote).join(' ');
}
