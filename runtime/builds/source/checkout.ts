// Writes a commit's files into an empty directory, without running hooks.
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { BuildFailure } from '../../../bundler/failure.ts';
import { MAX_ENTRIES } from '../../../bundler/limits.ts';
import { gitEnvironment } from '../../git/environment.ts';
import { gitProgram } from '../../git/program.ts';
import { ChildError } from '../../processes/child.ts';
import { atLowPriority } from '../../resources/low-priority.ts';
import { run } from '../commands/run.ts';
import { gitRecords, type Listing } from './git-records.ts';

/** Maximum paths of one kind in the log; the others are only counted. */
const NAMED_PATHS = 20;

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

/** Paths of one kind: the first ones, and the total count. Very many long paths would not fit into memory. */
interface Paths {
  named: string[];
  count: number;
}

/** The files of a commit that determine its install. */
export interface InstallInputs {
  /** Paths of `package.json` files, without symbolic links; at most `MANIFESTS`. */
  manifests: string[];
  /**
   * Digest of manifests, lock files, Prisma's schemas and package managers' settings; `null` when an install may depend on
   * other files too.
   */
  digest: string | null;
}

interface Contents {
  megabytes: number;
  submodules: Paths;
  /** Whether it has a `.gitattributes` file. */
  attributed: boolean;
  install: InstallInputs;
}

/**
 * Checks out `sha`.
 * @returns the files that determine its install
 * @throws {BuildFailure} when the commit's files are larger than `worktreeMb` or too many, or git fails
 */
export async function checkout(options: Checkout): Promise<InstallInputs> {
  const { repository, sha, project, index, worktreeMb, timeoutMs, signal, onLine } = options;
  const environment = {
    ...gitEnvironment({ 'core.hooksPath': '/dev/null' }),
    GIT_INDEX_FILE: index,
    HOME: project,
  };
  const listing = { repository, environment, timeoutMs, signal };
  const { megabytes, submodules, attributed, install } = await readContents(sha, listing);
  if (megabytes > worktreeMb) throw tooLarge(megabytes, worktreeMb);
  const git = [...gitProgram(), '--git-dir', repository, '--work-tree', project];
  await run({
    arguments: [...(await atLowPriority()), ...git, 'read-tree', '--reset', '-u', sha],
    title: `git checkout ${sha.slice(0, 12)}`,
    cwd: project,
    environment,
    timeoutMs,
    signal,
    onLine,
  });
  mention(submodules, 'is a submodule and stays empty: submodules are not fetched', onLine);
  // The search for Git LFS needs a process, so it runs only if there is a `.gitattributes` file.
  if (!attributed) return install;
  const lfs = 'assigns files to Git LFS; they stay pointers: LFS objects are not fetched';
  mention(await lfsAttributes(sha, listing), lfs, onLine);
  return install;
}

/** Returns the failure of a worktree that exceeded its limit. Sizes in MiB. */
export function tooLarge(megabytes: number, limit: number): BuildFailure {
  return new BuildFailure(
    `the worktree has ${Math.ceil(megabytes)} MiB, more than the ${limit} MiB that a build may use (RUNNER_BUILD_MAX_MB)`,
  );
}

/**
 * Reads the list of a commit's files. A tree may repeat a subtree, so few bytes may name very many files.
 * @throws {BuildFailure} when there are more than `MAX_ENTRIES`
 */
async function readContents(sha: string, listing: Listing): Promise<Contents> {
  const words = ['ls-tree', '-r', '-t', '-l', '-z', '--full-tree', sha];
  const submodules: Paths = { named: [], count: 0 };
  let entries = 0;
  let bytes = 0;
  let attributed = false;
  const inputs = new InputsReader();
  for await (const record of gitRecords(words, listing)) {
    if (++entries > MAX_ENTRIES)
      throw new BuildFailure(`the commit has more than the ${MAX_ENTRIES} files and folders a build may use`);
    const tab = record.indexOf('\t');
    const [mode = '', , object = '', size = '-'] = record.slice(0, tab).split(/ +/);
    const path = record.slice(tab + 1);
    if (size !== '-') bytes += Number(size);
    if (mode === '160000') add(submodules, path);
    attributed ||= basename(path) === '.gitattributes';
    inputs.read(mode, object, path);
  }
  return { megabytes: bytes / 2 ** 20, submodules, attributed, install: inputs.result };
}

/** Names of the files that determine an install, apart from sources that its scripts may read. Prisma installs a client of schemas. */
const INSTALL_FILE =
  /^(?:package\.json|package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|pnpm-workspace\.yaml|\.pnpmfile\.[cm]?js|yarn\.lock|\.yarnrc(?:\.yml)?|bun\.lockb?|bunfig\.toml|\.npmrc|.+\.prisma)$/;
/** Folders with files that an install may use. */
const INSTALL_FOLDER = /(?:^|\/)(?:patches|\.yarn)\//;
const INSTALLED = /(?:^|\/)node_modules(?:\/|$)/;
const SYMBOLIC_LINK = '120000';
/** Maximum manifests that the digest covers. With more of them, there is no digest, and each deploy runs an install. */
const MANIFESTS = 500;

/** Computes the inputs of an install from a commit's listing. Object ids identify the contents, so no file is read. */
class InputsReader {
  readonly #hash = createHash('sha256');
  readonly #manifests: string[] = [];
  #complete = true;

  read(mode: string, object: string, path: string): void {
    const name = basename(path);
    if (INSTALLED.test(path)) this.#complete = false;
    if (!INSTALL_FILE.test(name) && !INSTALL_FOLDER.test(path)) return;
    this.#hash.update(`${mode} ${object} ${path}\0`);
    // The target of a symbolic link may change while the link stays the same.
    if (mode === SYMBOLIC_LINK) this.#complete = false;
    if (name !== 'package.json' || mode === SYMBOLIC_LINK) return;
    if (this.#manifests.length < MANIFESTS) this.#manifests.push(path);
    else this.#complete = false;
  }

  get result(): InstallInputs {
    return { manifests: this.#manifests, digest: this.#complete ? this.#hash.digest('hex') : null };
  }
}

/** Returns the `.gitattributes` files that assign files to Git LFS. */
async function lfsAttributes(sha: string, listing: Listing): Promise<Paths> {
  const pattern = ['--fixed-strings', '-e', 'filter=lfs'];
  const words = ['grep', '-l', '-z', ...pattern, sha, '--', ':(glob)**/.gitattributes'];
  const paths: Paths = { named: [], count: 0 };
  try {
    for await (const record of gitRecords(words, listing)) add(paths, record.slice(sha.length + 1));
  } catch (error) {
    // git grep has exit code 1 when no file matches.
    if (!(error instanceof ChildError && error.exitCode === 1)) throw error;
  }
  return paths;
}

function add(paths: Paths, path: string): void {
  if (++paths.count <= NAMED_PATHS) paths.named.push(path);
}

function mention({ named, count }: Paths, what: string, onLine: (line: string) => void): void {
  for (const path of named) onLine(`${path} ${what}`);
  if (count > named.length) onLine(`the same is true of ${count - named.length} more`);
}
