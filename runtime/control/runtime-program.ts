// The program that Miniflare runs as its workerd: the real one, listening where only the host can reach it.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeUnlessSame } from '../disk/data-directory.ts';
import { dieWithParent } from '../isolation/users.ts';
import { quote } from '../processes/shell.ts';

/** What Miniflare calls its sockets: its own entry, and the direct way to the first Worker. */
const SOCKETS = { entry: 'entry', http: 'direct:0:default' };

/** Where the control plane listens. Nobody but the host may enter the directory. */
export function controlSocket(directory: string): string {
  return join(directory, 'http.sock');
}

/**
 * Writes the program into `directory`. The kernel ends workerd with the host, however the host ends. Miniflare can
 * only ask for TCP ports, which every user of the machine can reach: the last words move them to unix sockets.
 * @param workerd path of the real program
 * @returns the path of the written one
 */
export function writeRuntimeProgram(directory: string, workerd: string): string {
  const sockets = {
    [SOCKETS.entry]: join(directory, 'entry.sock'),
    [SOCKETS.http]: controlSocket(directory),
  };
  const ending = dieWithParent();
  // In a session of its own, so that Ctrl-C in the host's terminal is the host's to handle.
  const session = ending.length > 0 ? ['/usr/bin/setsid'] : [];
  const command = [...session, ...ending, workerd];
  const addresses = Object.entries(sockets).map(([name, path]) => `--socket-addr=${name}=unix:${path}`);
  const path = join(directory, 'workerd');
  const script = [
    '#!/bin/sh',
    // A socket that a killed process left would be in the way.
    `rm -f ${quoted(Object.values(sockets))}`,
    `exec ${quoted(command)} "$@" ${quoted(addresses)}`,
  ];
  writeUnlessSame(path, `${script.join('\n')}\n`, 0o700);
  return path;
}

/** The pid of Miniflare's workerd, which it does not tell: of this process's children, the one fed a binary config on stdin. */
export function runtimePid(): number | null {
  for (const child of children()) {
    try {
      const words = readFileSync(`/proc/${child}/cmdline`, 'utf8').split('\0');
      if (words[0]!.endsWith('workerd') && words.includes('--binary')) return Number(child);
    } catch {
      // The process has ended since it was listed.
    }
  }
  return null;
}

/** The kernel lists a process's children by the thread that started them. */
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
