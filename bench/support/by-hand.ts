// A workerd that is started by hand on the config of an app's process, and called over a port.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { freePort } from '../../runtime/edge/caddy/caddy.ts';
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';

const READY_MS = 10_000;

export interface Subject {
  /** Directory of the release. */
  directory: string;
  /** Path of the config. Empty disk directories lie beside it. */
  config: string;
}

export interface Process {
  child: ChildProcess;
  port: number;
}

/**
 * Returns the flags of workerd that give each socket of a config an address. Without them workerd does not start.
 * @param address returns the address for the socket with this name
 */
export function socketFlags(config: string, address: (name: string) => string): string[] {
  const [, sockets = ''] = /sockets = \[(.*?)\]/s.exec(readFileSync(config, 'utf8')) ?? [];
  const names = [...sockets.matchAll(/\(name = "([^"]+)", http = /g)].map(([, name]) => name!);
  if (!names.includes('http')) throw new Error('the sockets are not where they were');
  return names.map((name) => `--socket-addr=${name}=${address(name)}`);
}

/** Starts workerd by hand. Resolves once it answers a GET of `path` with a 200. */
export async function start({ directory, config }: Subject, path = '/'): Promise<Process> {
  const port = await freePort('127.0.0.1');
  const disks = mkdtempSync(join(dirname(config), 'disks-'));
  const args = [
    'serve',
    config,
    '--experimental',
    ...socketFlags(config, (name) => `127.0.0.1:${name === 'http' ? port : 0}`),
  ];
  for (const name of ['do', 'kv']) {
    mkdirSync(join(disks, name));
    args.push('-d', `${name}=${join(disks, name)}`);
  }
  const child = spawn(workerdPath(), args, {
    cwd: directory,
    env: {},
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  try {
    await answers(`http://127.0.0.1:${port}${path}`);
  } catch (error) {
    await end(child);
    throw error;
  }
  return { child, port };
}

export async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

async function answers(url: string): Promise<void> {
  for (const begun = performance.now(); ; ) {
    const answer = await fetch(url).catch(() => null);
    if (answer?.ok) return;
    if (performance.now() - begun > READY_MS) throw new Error(`no answer within ${READY_MS / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
