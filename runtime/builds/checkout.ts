// Writes a commit's files into an empty directory, with nothing of the repository's own configuration or hooks.
import { execFile } from 'node:child_process';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import { BuildFailure } from '../../bundler/failure.ts';
import { gitEnvironment } from '../git/environment.ts';
import { run } from './run.ts';

const execute = promisify(execFile);
/** A listing longer than this is a worktree that no build could use. */
const LISTING_BYTES = 256 * 1024 * 1024;

export interface Checkout {
  repository: string;
  sha: string;
  /** An empty directory for the files. */
  project: string;
  /** A path for git's index, outside the project. */
  index: string;
  worktreeMb: number;
  timeoutMs: number;
  signal: AbortSignal;
  onLine: (line: string) => void;
}

interface Entry {
  mode: string;
  bytes: number;
  path: string;
}

/**
 * Checks out `sha`.
 * @throws {BuildFailure} when the commit's files are larger than `worktreeMb`, or git fails
 */
export async function checkout(options: Checkout): Promise<void> {
  const { repository, sha, project, index, worktreeMb, timeoutMs, signal, onLine } = options;
  const environment = {
    ...gitEnvironment({ 'core.hooksPath': '/dev/null' }),
    GIT_INDEX_FILE: index,
    HOME: project,
  };
  const entries = await listFiles(options, environment);
  const megabytes = entries.reduce((sum, { bytes }) => sum + bytes, 0) / 2 ** 20;
  if (megabytes > worktreeMb) throw tooLarge(megabytes, worktreeMb);
  const git = ['git', '--git-dir', repository, '--work-tree', project];
  await run({
    arguments: [...git, 'read-tree', '--reset', '-u', sha],
    title: `git checkout ${sha.slice(0, 12)}`,
    cwd: project,
    environment,
    timeoutMs,
    signal,
    onLine,
  });
  for (const { path } of entries.filter(({ mode }) => mode === '160000')) {
    onLine(`${path} is a submodule, and left empty: submodules are not fetched`);
  }
  // Few projects have such a file, and a search costs a process.
  const attributed = entries.some(({ path }) => basename(path) === '.gitattributes');
  for (const path of attributed ? await lfsAttributes(options, environment) : []) {
    onLine(`${path} gives files to Git LFS, and they are left as pointers: LFS objects are not fetched`);
  }
}

/** The failure of a worktree that grew past its limit. Sizes in MiB. */
export function tooLarge(megabytes: number, limit: number): BuildFailure {
  return new BuildFailure(
    `the worktree has ${Math.ceil(megabytes)} MiB, more than the ${limit} MiB a build may use`,
  );
}

async function listFiles(
  { repository, sha, signal }: Checkout,
  env: Record<string, string>,
): Promise<Entry[]> {
  const { stdout } = await execute(
    'git',
    ['--git-dir', repository, 'ls-tree', '-r', '-l', '-z', '--full-tree', sha],
    {
      env,
      signal,
      maxBuffer: LISTING_BYTES,
    },
  );
  return stdout
    .split('\0')
    .filter((line) => line !== '')
    .map((line) => {
      const tab = line.indexOf('\t');
      const [mode = '', , , size = '-'] = line.slice(0, tab).split(/ +/);
      return { mode, bytes: size === '-' ? 0 : Number(size), path: line.slice(tab + 1) };
    });
}

/** The `.gitattributes` files that give files to Git LFS. */
async function lfsAttributes(
  { repository, sha, timeoutMs, signal }: Checkout,
  env: Record<string, string>,
): Promise<string[]> {
  const options = { env, signal, timeout: timeoutMs, maxBuffer: LISTING_BYTES };
  const search = [
    'grep',
    '-l',
    '-z',
    '--fixed-strings',
    '-e',
    'filter=lfs',
    sha,
    '--',
    ':(glob)**/.gitattributes',
  ];
  try {
    const { stdout } = await execute('git', ['--git-dir', repository, ...search], options);
    return stdout
      .split('\0')
      .filter((line) => line !== '')
      .map((line) => line.slice(sha.length + 1));
  } catch (error) {
    if ((error as { code?: unknown }).code === 1) return [];
    throw error;
  }
}
