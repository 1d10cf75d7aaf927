// Starts a cell (a workerd process for an app or a task): spawns it, and waits until it listens.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setInterval } from 'node:timers/promises';
import type { AppCluster } from '../../bucket/app-cluster.ts';
import { asUser, dieWithParent, type User } from '../../isolation/users.ts';
import { logRarely, reason } from '../../log.ts';
import type { Job } from '../../processes/child.ts';
import { LineReader } from '../../processes/lines.ts';
import type { OutputSink } from '../../processes/output-sink.ts';
import { readUsage } from '../../processes/processes.ts';
import { startProgram } from '../../processes/shell-program.ts';
import { endsForMemory, limitCell } from '../../resources/cell-groups.ts';
import { endBeforeHost } from '../../resources/out-of-memory.ts';
import { aborted } from '../../threads/aborted.ts';
import { startStep } from '../admission/room.ts';
import { Cell, type CellExit, signalGroup } from './cell.ts';
import { type CellPlace, makeCellDirectories, newSocketPath, takeSocket } from './cell-directories.ts';
import { CellOutput } from './cell-output.ts';
import { CoreUse } from './core-use.ts';
import { evictOwner, OWNER_FILE, recordOwner } from './storage-claim.ts';

/** How to start a cell. */
export interface CellOptions extends CellPlace {
  /** Path of the workerd program. */
  workerd: string;
  /** Memory that the process may use (`RUNNER_CELL_MAX_MB`), in MiB. */
  memoryMb: number;
  /** Whether the process is a part of Cellar itself, so that the kernel's limits for apps do not apply. Default: false. */
  isPart?: boolean;
  /** The environment of the process. Default: none. */
  environment?: Record<string, string>;
  /** Texts that the config embeds, as in `startProgram`. Default: none. */
  texts?: string[];
  /** Names of the sockets where other apps reach the Worker, by kind of call. Default: none. */
  callSockets?: Record<string, string>;
  /** Whether the disks are an app's storage. If so, an older process that uses the storage is ended first. */
  ownsStorage: boolean;
  /** The app's cluster, if the config makes the process a member. Default: none. */
  cluster?: AppCluster | undefined;
  /** Enables the inspector, and is called with its port on loopback. Default: no inspector. */
  onInspector?: ((port: number) => void) | null;
  /** Takes the process's output: workerd's JSON log lines, sometimes plain text. */
  output: OutputSink;
  /** Maximum time until the process listens on all sockets, in ms. Default: `START_TIMEOUT_MS`. */
  startTimeoutMs?: number | undefined;
  /** Cancels the start and kills the process. */
  signal?: AbortSignal;
  /** Called when the process exists. It has not begun to run the app's code. */
  onSpawned?: () => void;
}

const START_TIMEOUT_MS = 30_000;
/** CPU time limit of a start, in ms. The largest Workers need one or two seconds. */
const START_CPU_MS = 10_000;
/** How often a starting process's CPU time and memory are checked, in ms. */
const EXCESS_EVERY_MS = 1_000;
/** Allowance for memory that workerd reserves but never writes, in MiB. 550 was measured; a larger machine reserves more. */
const RESERVED_MB = 1_024;
const MB = 1024 * 1024;

/** Returns the path of the workerd program that npm installed: the binary itself, not the script that wraps it. */
export function workerdPath(): string {
  return createRequire(import.meta.url)('workerd').default;
}

/**
 * Starts a process and waits until it listens on every socket.
 * @throws {StartRefused} when the host cannot create another process
 * @throws {Error} when it does not start: with workerd's own message on one line, or for a timeout or too much CPU or memory
 */
export function startCell(options: CellOptions): Promise<Cell> {
  return startStep(() => start(options));
}

async function start(options: CellOptions): Promise<Cell> {
  const { runDirectory, sockets, signal, startTimeoutMs = START_TIMEOUT_MS } = options;
  signal?.throwIfAborted();
  const from = performance.now();
  // 1. Clean up: end an older process on the storage, finish an import, remove leases and socket files of a killed process.
  const ownerFile = options.ownsStorage ? join(runDirectory, OWNER_FILE) : null;
  if (ownerFile !== null) await evictOwner(ownerFile);
  if (options.cluster) {
    const ready = options.cluster.finishImport().then(() => options.cluster!.removeLeases());
    await (signal ? Promise.race([ready, aborted(signal)]) : ready);
  }
  await makeCellDirectories(options);
  // 2. Spawn the process.
  options.cluster?.processBegins();
  const child = await startWorkerd(options);
  const { pid } = child;
  const output = new CellOutput(options.output, options.memoryMb);
  const exited = watchExit(child, output);
  void exited.then(() => options.cluster?.processEnded());
  // 3. Record the process, so that the next start of a crashed host can end it. Wait until it is ready, exits or must be
  // killed.
  const stop = new AbortController();
  const deadline = AbortSignal.timeout(startTimeoutMs);
  const giveUp = AbortSignal.any(signal ? [deadline, signal, stop.signal] : [deadline, stop.signal]);
  try {
    if (ownerFile !== null) record(ownerFile, pid, options.user);
    options.onSpawned?.();
    await Promise.race([
      listening(child.channel, new Set(sockets), options.onInspector),
      exited.then(({ reason }) => Promise.reject(new Error(reason))),
      aborted(giveUp),
      excess(pid, options.memoryMb, stop.signal),
    ]);
    for (const socket of sockets) takeSocket(options, socket);
    return new Cell(child, exited, options, from);
  } catch (error) {
    signalGroup(child, 'SIGKILL');
    await exited;
    if (error !== deadline.reason) throw error;
    throw new Error(
      `not ready after ${startTimeoutMs / 1000} s: does a module loop or wait at its top level?`,
    );
  } finally {
    stop.abort();
  }
}

/**
 * Records which process uses the storage. On Linux, the kernel ends this process together with the host, so the record is
 * only a fallback there: an error, such as a full disk, is logged and does not prevent the start of the app.
 */
function record(file: string, pid: number, user: User | null): void {
  try {
    recordOwner(file, pid);
  } catch (error) {
    if (user === null && dieWithParent().length === 0) throw error;
    logRarely('warn', 'the process id of an app could not be stored', { file, error: reason(error) });
  }
}

function startWorkerd(options: CellOptions): Promise<Job> {
  const { workerd, user, directory, config, disks, runDirectory, sockets, texts = [] } = options;
  const words = [
    ...(user === null ? dieWithParent() : asUser(user)),
    workerd,
    'serve',
    config,
    // Required by the assets service and by workerd's bundled services.
    '--experimental',
    '--control-fd=3',
    // On a unix socket the inspector would be safer, but workerd then hangs.
    ...(options.onInspector ? ['--inspector-addr=127.0.0.1:0'] : []),
    ...Object.entries(disks).map(([name, path]) => `--directory-path=${name}=${path}`),
    ...sockets.map((name) => `--socket-addr=${name}=unix:${newSocketPath(runDirectory, name)}`),
  ];
  const dataLimitBytes = (options.memoryMb + RESERVED_MB) * MB;
  const environment = { ...options.environment, ...options.cluster?.environment };
  return startProgram({ words, cwd: directory, environment, texts, dataLimitBytes }, ({ pid, exited }) => {
    if (options.isPart) return;
    endBeforeHost(pid);
    limitCell(pid, exited);
  });
}

/** Resolves when workerd has reported on the control pipe that it listens on each of `sockets`. Empties `sockets`. */
export function listening(
  control: Readable,
  sockets: Set<string>,
  onInspector: CellOptions['onInspector'],
): Promise<void> {
  return new Promise((resolve) => {
    const lines = new LineReader((line) => {
      const { event, socket, port } = parse(line);
      if (event === 'listen-inspector') onInspector?.(Number(port));
      if (event === 'listen') sockets.delete(String(socket));
      if (sockets.size === 0) resolve();
    });
    control.on('data', (chunk) => lines.write(chunk));
  });
}

/** Rejects when a starting process exceeds its limits of CPU time or memory. A busy process gets low priority meanwhile. */
async function excess(pid: number, memoryMb: number, ended: AbortSignal): Promise<never> {
  const coreUse = new CoreUse();
  coreUse.begin(pid);
  ended.addEventListener('abort', () => coreUse.forgive());
  for await (const _ of setInterval(EXCESS_EVERY_MS, null, { signal: ended })) {
    const usage = await readUsage('/', [pid]).then(
      ({ processes }) => processes[0],
      () => null,
    );
    if (!usage) continue;
    coreUse.look(usage.cpuMs);
    if (usage.cpuMs > START_CPU_MS)
      throw new Error(
        `not ready after ${START_CPU_MS / 1000} s of processor time: does a module loop at its top level?`,
      );
    if (usage.privateBytes > memoryMb * MB)
      throw new Error(`needs more memory to start than RUNNER_CELL_MAX_MB (${memoryMb}) allows`);
  }
  throw ended.reason;
}

function parse(line: string): { event?: unknown; socket?: unknown; port?: unknown } {
  try {
    return JSON.parse(line) ?? {};
  } catch {
    return {};
  }
}

async function watchExit(child: Job, output: CellOutput): Promise<CellExit> {
  output.read('stdout', child.stdout);
  output.read('stderr', child.stderr);
  const forMemory = endsForMemory(child.pid);
  const { code, killedBy } = await child.closed;
  return { code, signal: killedBy, ...output.explain(code, killedBy, await forMemory) };
}
