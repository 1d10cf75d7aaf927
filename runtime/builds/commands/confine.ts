// Runs one build command in isolation: as its user, in the sandbox, with limits on memory and processes.
import { chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Isolation, makeView } from '../../isolation/isolation.ts';
import { asUser, dieWithParent, type User } from '../../isolation/users.ts';
import { quote } from '../../processes/shell.ts';
import type { GroupState } from '../../resources/cgroup.ts';
import { mostTasks } from '../../resources/cgroup-place.ts';
import { atLowPriority, atLowPriorityAsMany } from '../../resources/low-priority.ts';
import { canLimitTasks, withTaskLimit } from '../../resources/process-limits.ts';
import { aborted } from '../../threads/aborted.ts';
import { killed, memoryShare, tooMuchMemory } from '../usage/memory-share.ts';
import { watchUsage } from '../usage/watch-usage.ts';
import type { BuildDirectories } from './environment.ts';

/** Maximum processes and threads of one command. Node has about ten threads; frameworks start a process for each core. */
const MAX_TASKS = 2048;
/**
 * One command's share of the process limit of Cellar's container or systemd unit. Four builds may run at once, and a fifth
 * is left for everything else.
 */
const SHARE_OF_TASKS = 1 / 5;
/** Matches error messages about the process limit. `sh` prints only `cannot fork`. */
const OUT_OF_TASKS = /cannot fork|resource temporarily unavailable|EAGAIN|uv_thread_create|pthread_create/i;

export interface ConfineOptions {
  isolation: Isolation;
  /** The deploy's id, for the name of the control group. */
  deployId: string;
  /** The build's own directory. Below it, commands write only to `directories`. */
  scratch: string;
  directories: BuildDirectories;
  user: User | null;
  /** The command's own variables. The programs that isolate it get none of them. */
  environment: Record<string, string>;
  /** Files and directories that it may read, besides the system's. */
  read: string[];
  cwd: string;
  /** MiB for the commands of all builds together. */
  memoryMb: number;
}

/** A command that is ready to run. */
export interface Confined {
  /** The isolating programs, then the program and its arguments. */
  arguments: string[];
  environment: Record<string, string>;
  cwd: string;
  /** Call it with each line that the command prints. */
  onLine: (line: string) => void;
  /** Call it when the command runs as process `pid`. Rejects when the command must be ended, and when `ended` aborts. */
  watch: (ended: AbortSignal, pid: number) => Promise<void>;
  /**
   * Returns the limit that the command hit, for the project's author; `null`: unknown. Call it after the command's end.
   * @param failure the error; empty: it succeeded
   */
  explain: (failure: string) => Promise<string | null>;
  /** Removes the command's control group. Call it after the command's end. */
  end: () => Promise<void>;
}

/** Matches the end of an error message of a command that was killed, or whose child was killed. */
const KILLED = /(?:was ended by SIGKILL|failed with exit code 137)$/;

let commands = 0;
let running = 0;

export async function confine(command: string[], options: ConfineOptions): Promise<Confined> {
  const { isolation, deployId, user, directories, cwd } = options;
  const memoryMb = memoryShare(options.memoryMb, running + 1);
  const own = join(options.scratch, `command-${++commands}`);
  await isolation.reach();
  const sandbox = await isolation.sandbox();
  const most = tasksOfBuild(mostTasks());
  const group = await isolation.group(`build-${deployId}-${commands}`, memoryMb, most);
  // For the condition below: the kernel does not limit the number of root's processes.
  const uid = process.getuid!();
  const way =
    sandbox === null
      ? { words: await atLowPriority(), tasks: null, busyThreads: null }
      : await atLowPriorityAsMany(group === null && canLimitTasks && (user?.uid ?? uid) !== 0);
  const tasks = Math.min(most, way.tasks ?? most);
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
  // Sets the command's variables only here: some of the programs before it run as the host's user.
  const withVariables = ['/bin/sh', '-c', '. "$1"; shift; exec "$@"', 'sh', variables];
  const isInNamespace = sandbox !== null && uid !== 0;
  const limited = group === null ? await withTaskLimit(user?.uid ?? uid, tasks, isInNamespace) : [];
  let refused = false;
  let peakBytes = 0;
  const onMemory = (bytes: number) => {
    peakBytes = Math.max(peakBytes, bytes);
  };
  running++;
  return {
    arguments: [...way.words, ...(group?.enter ?? []), ...walled, ...limited, ...withVariables, ...command],
    environment: { PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8' },
    cwd: sandbox === null ? cwd : '/',
    onLine: (line) => {
      refused ||= OUT_OF_TASKS.test(line);
    },
    watch: (ended, pid) =>
      group === null
        ? watchUsage(pid, { memoryMb, busyThreads: way.busyThreads, onMemory }, ended)
        : aborted(ended),
    explain: async (failure) => {
      const state = (await group?.state()) ?? null;
      const limit = explain(state, refused, memoryMb, { tasks, isShort: tasks < most });
      if (limit !== null || !KILLED.test(failure)) return limit;
      return killed(memoryMb, state?.memoryPeakBytes ?? peakBytes);
    },
    end: async () => {
      running--;
      await group?.remove();
    },
  };
}

/**
 * Returns the maximum processes and threads of one command.
 * @param most the limit of Cellar's container or unit; `null`: no limit
 */
export function tasksOfBuild(most: number | null): number {
  return most === null ? MAX_TASKS : Math.min(MAX_TASKS, Math.floor(most * SHARE_OF_TASKS));
}

const MACHINE_OUT_OF_MEMORY =
  'the kernel ended a process of the build because the machine, or the container that Cellar runs in, ran out of memory';

function explain(
  state: GroupState | null,
  refused: boolean,
  memoryMb: number,
  { tasks, isShort }: { tasks: number; isShort: boolean },
): string | null {
  if (state !== null && state.memoryKills > 0) return tooMuchMemory(memoryMb, state.memoryPeakBytes);
  if (state !== null && state.killsFromAbove > 0) return MACHINE_OUT_OF_MEMORY;
  const fifth =
    tasks < MAX_TASKS ? ', a fifth of what the container or unit that Cellar runs in may have' : '';
  const why = isShort ? ' while other programs keep the processors of this machine busy' : fifth;
  const limit = `a build may have at most ${tasks} processes and threads${why}`;
  if (state !== null) return state.tasksRefused > 0 ? `${limit}, and this build needed more` : null;
  return refused ? `${limit}, and by its output this build needed more` : null;
}

/** Returns the variables as a shell script. */
function exported(variables: Record<string, string>): string {
  const lines = Object.entries(variables).map(([name, value]) => `export ${name}=${quote(value)}\n`);
  return lines.join('');
}
