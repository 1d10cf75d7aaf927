// Starts a cell (an app's workerd process, or one for a task): spawns it and waits until it listens.
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
  /** Whether the process is a part of Cellar: then the kernel's limits for apps do not apply to it. Default: false. */
  isPart?: boolean;
  /** The environment of the process. Default: none. */
  environment?: Record<string, string>;
  /** Texts that the config embeds: see `startProgram`. Default: none. */
  texts?: string[];
  /** Names of the sockets where other apps reach the Worker, by kind of call. Default: none. */
  callSockets?: Record<string, string>;
  /** Whether the disks are an app's storage: then older processes that use it are ended first. */
  ownsStorage: boolean;
  /** The app's cluster, when the config has it. Default: none. */
  cluster?: AppCluster | undefined;
  /** Enables the inspector, and gets its port on loopback. Default: no inspector. */
  onInspector?: ((port: number) => void) | null;
  /** Gets the process's output: workerd's JSON log lines, sometimes plain text. */
  output: OutputSink;
  /** Longest wait for the sockets, in ms. */
  startTimeoutMs?: number | undefined;
  /** Cancels the start and kills the process. */
  signal?: AbortSignal;
  /** Called when the process exists but has not begun to run the app. */
  onSpawned?: () => void;
}

const START_TIMEOUT_MS = 30_000;
/** CPU time limit of a start, in ms. The largest Workers need one or two seconds. */
const START_CPU_MS = 10_000;
/** How often a long start is checked, in ms. */
const EXCESS_EVERY_MS = 1_000;
/** Memory that workerd reserves but never writes, in MiB: 550 here, more with the threads of a larger machine. */
const RESERVED_MB = 1_024;
const MB = 1024 * 1024;

/** The pinned workerd program itself, not the script that wraps it. */
export function workerdPath(): string {
  return createRequire(import.meta.url)('workerd').default;
}

/**
 * Starts a process and waits until it listens on every socket.
 * @throws {StartRefused} when the host cannot create another process
 * @throws {Error} with workerd's own message, on one line, when it does not load
 */
export function startCell(options: CellOptions): Promise<Cell> {
  return startStep(() => start(options));
}

async function start(options: CellOptions): Promise<Cell> {
  const { runDirectory, sockets, signal, startTimeoutMs = START_TIMEOUT_MS } = options;
  signal?.throwIfAborted();
  const from = performance.now();
  // 1. Clean up: end other processes on the storage, remove socket files and leases of a killed process, finish an import.
  const ownerFile = options.ownsStorage ? join(runDirectory, OWNER_FILE) : null;
  if (ownerFile !== null) await evictOwner(ownerFile);
  if (options.cluster) {
    const ready = options.cluster.finishImport().then(() => options.cluster!.removeLeases());
    await (signal ? Promise.race([ready, aborted(signal)]) : ready);
  }
  await makeCellDirectories(options);
  // 2. Spawn, and record the process for the next host if this one crashes.
  options.cluster?.processBegins();
  const child = await startWorkerd(options);
  const { pid } = child;
  const output = new CellOutput(options.output, options.memoryMb);
  const exited = watchExit(child, output);
  void exited.then(() => options.cluster?.processEnded());
  // 3. Wait until ready, exit, timeout or abort.
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
 * Records which process uses the storage. Where the kernel ends that process together with this one, the record is only a
 * fallback. There an error, such as a full disk, does not stop the app from starting.
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
    // A unix socket would be safer, but workerd hangs when its inspector has one.
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

/** Resolves when each of `sockets` has been reported on the control pipe. */
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

/** Rejects when a starting process uses more CPU time or memory than any normal start. A CPU-heavy one runs at low priority. */
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
