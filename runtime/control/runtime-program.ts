// The program that Miniflare runs as its workerd: the real one, listening where only the host can reach it.
import type { ChildProcess } from 'node:child_process';
import diagnosticsChannel from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeUnlessSame } from '../machine/data-directory.ts';
import { quote } from '../machine/shell.ts';
import { dieWithParent } from '../machine/users.ts';

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

/**
 * Has Miniflare learn that its workerd could not be made, or ended before it had read its configuration: by itself it
 * would wait for ever for that, and then start no other.
 * @param program what `writeRuntimeProgram` returned
 * @returns ends this
 */
export function tellOfEarlyEnds(program: string): () => void {
  const onCreated = (message: unknown) => {
    const { process: child } = message as { process: ChildProcess };
    // What it runs is known when it has been started, in this turn of the loop.
    queueMicrotask(() => {
      if (child.spawnfile !== program) return;
      const fail = (error: Error) => {
        const { stdin } = child;
        if (stdin && !stdin.writableFinished && stdin.listenerCount('error') > 0) stdin.emit('error', error);
      };
      child.once('exit', () => fail(new Error('it ended before it had read its configuration')));
      child.once('error', (error) => {
        fail(error);
        // No other event will say that this process has ended.
        child.emit('exit', null, null);
      });
    });
  };
  diagnosticsChannel.subscribe('child_process', onCreated);
  return () => diagnosticsChannel.unsubscribe('child_process', onCreated);
}

/** The pid of Miniflare's workerd, which it does not tell: of this process's children, the one fed a binary config on stdin. */
export function runtimePid(): number | null {
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8')
    .trim()
    .split(' ');
  for (const child of children) {
    try {
      const words = readFileSync(`/proc/${child}/cmdline`, 'utf8').split('\0');
      if (words[0]!.endsWith('workerd') && words.includes('--binary')) return Number(child);
    } catch {
      // The process has ended since it was listed.
    }
  }
  return null;
}

function quoted(words: string[]): string {
  return words.map(quote).join(' ');
}
