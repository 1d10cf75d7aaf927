// One command of a build within its walls: as its user, in the sandbox, with limits on memory and processes.
import { chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ControlGroup } from '../machine/cgroup.ts';
import { endFirst } from '../machine/out-of-memory.ts';
import { findProgram } from '../machine/programs.ts';
import { asUser, dieWithParent, type User } from '../machine/users.ts';
import { makeView, type Walls } from '../machine/walls.ts';
import type { BuildDirectories } from './environment.ts';

/** Processes and threads of one command. A Node has about ten threads, and frameworks start one for each core. */
const MAX_TASKS = 2048;
/** What programs print that lack memory, or get no more processes. */
const OUT_OF_MEMORY = /out of memory|cannot allocate memory|bad_alloc|ENOMEM/i;
const OUT_OF_TASKS = /resource temporarily unavailable|EAGAIN|uv_thread_create|pthread_create/i;

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
  /** To be told each line that it prints. */
  onLine: (line: string) => void;
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
  const sandbox = await walls.sandbox();
  const group = await walls.group(`build-${deployId}-${commands}`, memoryMb, MAX_TASKS);
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
  // Only now: the words before run as the host.
  const withVariables = ['/bin/sh', '-c', '. "$1"; shift; exec "$@"', 'sh', variables];
  const limited = group === null ? limitEach(memoryMb) : [];
  const printed = { memory: false, tasks: false };
  return {
    arguments: [...endFirst(), ...(group?.enter ?? []), ...walled, ...limited, ...withVariables, ...command],
    environment: { PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8' },
    cwd: sandbox === null ? cwd : '/',
    onLine: (line) => {
      printed.memory ||= OUT_OF_MEMORY.test(line);
      printed.tasks ||= OUT_OF_TASKS.test(line);
    },
    explain: () => explain(group, printed, memoryMb),
    end: async () => group?.remove(),
  };
}

/** Without groups: limits for each process alone, and for all processes of its user. */
function limitEach(memoryMb: number): string[] {
  const prlimit = findProgram('prlimit');
  if (prlimit === null) return [];
  return [prlimit, `--data=${memoryMb * 2 ** 20}`, `--nproc=${MAX_TASKS}`, '--'];
}

async function explain(
  group: ControlGroup | null,
  printed: { memory: boolean; tasks: boolean },
  memoryMb: number,
): Promise<string | null> {
  const state = await group?.state();
  if (state === undefined ? printed.memory : state.memoryKills > 0) {
    const what = state === undefined ? 'each process of a build' : 'a build';
    return `${what} may use ${memoryMb} MiB of memory, and that was used up: the owner of this Cellar may raise RUNNER_BUILD_MEMORY_MB`;
  }
  if (state === undefined ? printed.tasks : state.tasksRefused > 0)
    return `a build may have ${MAX_TASKS} processes and threads, and it wanted more`;
  return null;
}

/** The variables as a script of the shell's. */
function exported(variables: Record<string, string>): string {
  const lines = Object.entries(variables).map(
    ([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'\n`,
  );
  return lines.join('');
}
