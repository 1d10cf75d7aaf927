// One command of a build within its walls: as its user, in the sandbox, with limits on memory and processes.
import { chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BuildFailure } from '../../bundler/failure.ts';
import { aborted } from '../machine/aborted.ts';
import type { ControlGroup } from '../machine/cgroup.ts';
import { mostTasks } from '../machine/cgroup-place.ts';
import { giveWay } from '../machine/give-way.ts';
import { memoryBelow, tasksOf } from '../machine/processes.ts';
import { findProgram } from '../machine/programs.ts';
import { quote } from '../machine/shell.ts';
import { asUser, dieWithParent, type User } from '../machine/users.ts';
import { makeView, type Walls } from '../machine/walls.ts';
import type { BuildDirectories } from './environment.ts';

/** Processes and threads of one command. A Node has about ten threads, and frameworks start one for each core. */
const MAX_TASKS = 2048;
/** Of what the container or unit that Cellar runs in may have: four builds run side by side, and as much stays for all the rest. */
const SHARE_OF_TASKS = 1 / 5;
/** Between two looks at the memory of a command without a control group, in ms. */
const LOOK_EVERY_MS = 500;
/** Messages of programs that may start no more processes. The first is all that `sh` says. */
const OUT_OF_TASKS = /cannot fork|resource temporarily unavailable|EAGAIN|uv_thread_create|pthread_create/i;

export interface ConfineOptions {
  walls: Walls;
  /** Names the build. */
  deployId: string;
  /** A directory of the build's that only the host writes to. */
  scratch: string;
  directories: BuildDirectories;
  user: User | null;
  /** The command's own variables. The words that confine it get none of them. */
  environment: Record<string, string>;
  /** Files and directories that it may read, besides the system's. */
  read: string[];
  cwd: string;
  memoryMb: number;
}

/** A command that can be run. */
export interface Confined {
  /** The program and its arguments, with those before it that confine it. */
  arguments: string[];
  environment: Record<string, string>;
  cwd: string;
  /** To be called with each line that the command prints. */
  onLine: (line: string) => void;
  /** To be called when it runs, as `pid`. Rejects when it has to be ended. */
  watch: (ended: AbortSignal, pid: number) => Promise<void>;
  /** Which limit the command has run into, for the author of a project; `null`: none is known. Call it when it has ended. */
  explain: () => Promise<string | null>;
  /** Frees what it took. */
  end: () => Promise<void>;
}

let commands = 0;

/** Makes `command` ready to be run. */
export async function confine(command: string[], options: ConfineOptions): Promise<Confined> {
  const { walls, deployId, user, directories, memoryMb, cwd } = options;
  const own = join(options.scratch, `command-${++commands}`);
  await walls.reach();
  const sandbox = await walls.sandbox();
  const tasks = tasksOfBuild(mostTasks());
  const group = await walls.group(`build-${deployId}-${commands}`, memoryMb, tasks);
  const view = makeView(own);
  const variables = join(own, 'environment');
  const temporary = sandbox === null ? directories.temporary : '/tmp';
  writeFileSync(variables, exported({ ...options.environment, TMPDIR: temporary }), { mode: 0o400 });
  if (user) for (const path of [view.temporary, view.shared, variables]) chownSync(path, user.uid, user.gid);
  const { project, home, cache } = directories;
  const write = [project, home, cache];
  const read = [variables, ...options.read, ...(group?.directories ?? [])];
  const walled =
    sandbox === null ? (user ? asUser(user) : dieWithParent()) : sandbox({ ...view, read, write, cwd }, user);
  // Only from here on: the words before these run as the host's user.
  const withVariables = ['/bin/sh', '-c', '. "$1"; shift; exec "$@"', 'sh', variables];
  const limited = group === null ? await limitTasks(user?.uid ?? process.getuid!(), tasks) : [];
  let refused = false;
  return {
    arguments: [
      ...(await giveWay(sandbox !== null)),
      ...(group?.enter ?? []),
      ...walled,
      ...limited,
      ...withVariables,
      ...command,
    ],
    environment: { PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8' },
    cwd: sandbox === null ? cwd : '/',
    onLine: (line) => {
      refused ||= OUT_OF_TASKS.test(line);
    },
    watch: (ended, pid) => (group === null ? watchMemory(pid, memoryMb, ended) : aborted(ended)),
    explain: () => explain(group, refused, memoryMb, tasks),
    end: async () => group?.remove(),
  };
}

/**
 * How many processes and threads one command may have.
 * @param most what the container or unit that Cellar runs in may have; `null`: it has no limit
 */
export function tasksOfBuild(most: number | null): number {
  return most === null ? MAX_TASKS : Math.min(MAX_TASKS, Math.floor(most * SHARE_OF_TASKS));
}

/**
 * Without groups: a limit for all processes of the user, so that those count which the user has already. An ordinary user's
 * browser alone may have a thousand threads.
 */
async function limitTasks(uid: number, tasks: number): Promise<string[]> {
  const prlimit = findProgram('prlimit');
  return prlimit === null ? [] : [prlimit, `--nproc=${(await tasksOf(uid)) + tasks}`, '--'];
}

/**
 * Looks at the memory of a process and all below it, again and again. No limit of the kernel's for one process will do:
 * Node reserves half a gigabyte for each of its threads and uses little of it.
 * @throws {BuildFailure} when they use more than they may
 */
async function watchMemory(pid: number, memoryMb: number, ended: AbortSignal): Promise<void> {
  for (;;) {
    await sleep(LOOK_EVERY_MS, undefined, { signal: ended });
    if ((await memoryBelow(pid)) > memoryMb * 2 ** 20) throw new BuildFailure(tooMuchMemory(memoryMb));
  }
}

const MACHINE_OUT_OF_MEMORY =
  'the kernel ended a process of the build because the machine, or the container that Cellar runs in, ran out of memory';

function tooMuchMemory(memoryMb: number): string {
  return `a build may use ${memoryMb} MiB of memory, and that was used up: the owner of this Cellar may raise RUNNER_BUILD_MEMORY_MB`;
}

async function explain(
  group: ControlGroup | null,
  refused: boolean,
  memoryMb: number,
  tasks: number,
): Promise<string | null> {
  const state = await group?.state();
  if (state !== undefined && state.memoryKills > 0) return tooMuchMemory(memoryMb);
  if (state !== undefined && state.killsFromAbove > 0) return MACHINE_OUT_OF_MEMORY;
  const why = tasks < MAX_TASKS ? ', a fifth of what the container or unit that Cellar runs in may have' : '';
  const limit = `a build may have ${tasks} processes and threads${why}`;
  if (state !== undefined) return state.tasksRefused > 0 ? `${limit}, and it wanted more` : null;
  return refused ? `${limit}, and what it printed reads as if it had wanted more` : null;
}

/** The variables as a script of the shell's. */
function exported(variables: Record<string, string>): string {
  const lines = Object.entries(variables).map(([name, value]) => `export ${name}=${quote(value)}\n`);
  return lines.join('');
}
