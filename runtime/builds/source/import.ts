// Imports repositories from other servers. Git fetches and packs the commits in the sandbox of builds, only from addresses
// that the host looked up and allowed before. The host's git then checks the pack like a push.
import { constants } from 'node:fs';
import { mkdtemp, open, readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { BuildFailure } from '../../../bundler/failure.ts';
import { parseRemote, type Remote } from '../../../handlers/contract/source/remote.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { removeTree } from '../../disk/remove.ts';
import type { MadeCommit } from '../../git/commit.ts';
import { gitEnvironment } from '../../git/environment.ts';
import { gitProgram } from '../../git/program.ts';
import { DEPLOY_REF } from '../../git/repository.ts';
import { strictness } from '../../git/smart-http.ts';
import { resolveCommit } from '../../git/source.ts';
import type { Isolation } from '../../isolation/isolation.ts';
import type { PublicAddresses } from '../../isolation/private-networks.ts';
import { changeOwner } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';
import { reason } from '../../log.ts';
import { startJob } from '../../processes/child.ts';
import { searchPath } from '../../processes/programs.ts';
import { FairQueue, QueueFull } from '../../queues/fair-queue.ts';
import { Refusal } from '../../refusal.ts';
import { minimumCpuShare } from '../../resources/low-priority.ts';
import { confine } from '../commands/confine.ts';
import { makeDirectories } from '../commands/environment.ts';
import { certificateFiles, networkVariables } from '../commands/network-settings.ts';
import { run } from '../commands/run.ts';
import type { BuildInput } from '../release/build-input.ts';
import { requireDisk, sizeLimits, watchSize } from '../usage/size.ts';
import {
  addressesOf,
  type Credentials,
  explanation,
  KNOWN_HOSTS,
  settingsFor,
  sshVariables,
  writeSshFiles,
} from './remote.ts';

/** Limits of the queue of imports. Each import may use the memory of a build. */
const LIMITS = { name: 'imports', running: 2, runningPerOwner: 1, waitingPerOwner: 8 };
/** Timeout of an import, in ms. */
const DEADLINE_MS = 300_000;
/** Number of git's last lines that are searched for the reason of a failure. */
const EXPLAINING_LINES = 20;
/** The user that runs the fetch when the host is root. No app uses it. */
const NOBODY: User = { uid: 65_534, gid: 65_534 };
/** Maximum size of SSH's file of known hosts, in bytes. */
const KNOWN_HOSTS_BYTES = 16 * 1024;
/** A shell script. Prints the commit of the first ref that exists, and packs what `$2`, an earlier commit, does not have. */
const FETCH = `url=$1 have=$2 && shift 2 || exit
if [ "$1" = tags ]; then
  tags=$(git ls-remote --quiet --tags --refs --sort=-version:refname -- "$url") || exit
  versions=$(printf '%s\\n' "$tags" | grep -i '\trefs/tags/v\\{0,1\\}[0-9]' || true)
  set -- "$(printf '%s\\n' "\${versions:-$tags}" | head -n 1 | cut -f 2)"
  [ -n "$1" ] || { echo 'fatal: it has no tags yet'; exit 1; }
fi
want=
case $1 in
HEAD | refs/*)
  listed=$(git ls-remote --quiet -- "$url" "$@" "$1^{}") || exit
  for ref; do
    # The commit of an annotated tag comes after the tag itself.
    found=$(printf '%s\\n' "$listed" | while read -r sha name; do
      if [ "$name" = "$ref" ] || [ "$name" = "$ref^{}" ]; then echo "$sha"; fi
    done | tail -n 1)
    [ -z "$found" ] || [ -n "$want" ] || want=$ref
    if [ "$want" = "$ref" ] && [ "$found" = "$have" ]; then echo "commit $found"; exit; fi
  done
  [ "$1$want" != HEAD ] || { echo 'fatal: it has no commits'; exit 1; }
  [ -n "$want" ] || { echo "fatal: it has no $1"; exit 1; };;
*) want=$1;;
esac
git init --quiet --bare --template= . &&
git fetch --quiet --no-tags --no-recurse-submodules -- "$url" "+$want:refs/fetched" &&
sha=$(git rev-parse --verify --quiet 'refs/fetched^{commit}') && echo "commit $sha" || exit
{ echo "$sha" && if git cat-file -e "$have^{commit}" 2>/dev/null; then echo "^$have"; fi; } |
git pack-objects --quiet --revs --delta-base-offset whole >/dev/null`;

/** What is fetched from a repository on another server. */
export interface FetchFrom {
  remote: Remote;
  credentials: Credentials;
  /** Full names of refs, of which the first that exists is taken; or one full commit hash; or `tags` for the highest version. */
  refs: string[];
  /** A commit that the app's repository has already: the pack leaves out its history. Null for none. */
  have: string | null;
}

export interface Fetched {
  sha: string;
  /** Lines of SSH's known hosts; empty for HTTPS. */
  knownHosts: string[];
}

export interface ImportsOptions {
  paths: Layout;
  isolation: Isolation;
  limits: BuildInput['limits'];
  /** The addresses that imports may reach. */
  reachable: PublicAddresses;
}

/** The operations of a turn in the import queue. The signal of `inTurn` aborts them. */
export interface ImportTurn {
  /**
   * Brings a commit of a repository on another server into an app's repository.
   * @throws {Refusal} `import_failed` with the reason
   */
  fetch: (repository: string, from: FetchFrom) => Promise<Fetched>;
  /**
   * Brings the default branch of the repository at `url` into an app's empty repository.
   * @param url of https, without a user name
   * @returns the commit, as `moveMain` takes it
   * @throws {Refusal} `commit_conflict` when there are commits, `import_failed` with the reason
   */
  import: (repository: string, url: URL) => Promise<MadeCommit>;
}

export class Imports {
  readonly #options: ImportsOptions;
  readonly #queue = new FairQueue(LIMITS);

  constructor(options: ImportsOptions) {
    this.#options = options;
  }

  /**
   * Waits for the turn of an account, and runs `work` in it. Call `during` of the app's `changes` only in `work`: it keeps
   * the app from moving, and the wait may be long.
   * @throws {Refusal} `rate_limited` when too many imports of the account wait
   * @throws the signal's reason once it is aborted, and what `work` throws
   */
  async inTurn<T>(owner: string, signal: AbortSignal, work: (turn: ImportTurn) => Promise<T>): Promise<T> {
    let hasBegun = false;
    try {
      return await this.#queue.run({ owner, signal }, () => {
        hasBegun = true;
        return work({
          fetch: (repository, from) => this.#fetchOnce(repository, from, signal),
          import: (repository, url) => this.#import(repository, url, signal),
        });
      });
    } catch (error) {
      if (!hasBegun && error instanceof QueueFull) throw new Refusal(429, 'rate_limited', error.message);
      throw error;
    }
  }

  async #import(repository: string, url: URL, signal: AbortSignal): Promise<MadeCommit> {
    await requireEmpty(repository);
    const credentials = { privateKey: null, knownHosts: [], token: null };
    const from = { remote: parseRemote(url.href)!, credentials, refs: ['HEAD'], have: null };
    return { sha: (await this.#fetchOnce(repository, from, signal)).sha, before: null };
  }

  async #fetchOnce(repository: string, from: FetchFrom, signal: AbortSignal): Promise<Fetched> {
    const bring = (aborted: AbortSignal) => this.#bring(repository, from, aborted);
    try {
      return await minimumCpuShare.during(() => inTime(bring, signal));
    } catch (error) {
      if (signal.aborted || error instanceof Refusal) throw error;
      throw new Refusal(422, 'import_failed', `the repository could not be imported: ${reason(error)}`);
    }
  }

  async #bring(repository: string, from: FetchFrom, signal: AbortSignal): Promise<Fetched> {
    const { paths, limits, reachable } = this.#options;
    const addresses = await addressesOf(from.remote, reachable);
    requireDisk(paths.builds, limits.worktreeMb, limits.floorMb);
    const scratch = await mkdtemp(join(paths.builds, 'import-'));
    try {
      const fetched = await this.#fetch(from, addresses, scratch, signal);
      if ((await resolveCommit(repository, fetched.sha)) === fetched.sha) return fetched;
      await takePack(repository, join(scratch, 'project'), limits.worktreeMb, signal);
      if ((await resolveCommit(repository, fetched.sha)) !== fetched.sha)
        throw new Error('its pack has no such commit');
      return fetched;
    } finally {
      await removeTree(scratch);
    }
  }

  /** Writes a pack of the new commits into the project directory of `scratch`. */
  async #fetch(from: FetchFrom, addresses: string[], scratch: string, signal: AbortSignal): Promise<Fetched> {
    const { isolation, limits } = this.#options;
    const { remote, credentials, refs, have } = from;
    const user = process.getuid?.() === 0 ? NOBODY : null;
    const directories = makeDirectories(scratch, join(scratch, 'cache'));
    const isSsh = remote.kind === 'ssh';
    const files = isSsh ? writeSshFiles(directories.home, credentials) : [];
    if (user) await changeOwner([...Object.values(directories), ...files], user, DEADLINE_MS);
    const { SSL_CERT_FILE } = networkVariables();
    const confined = await confine(['/bin/sh', '-c', FETCH, 'sh', remote.url, have ?? '', ...refs], {
      isolation,
      deployId: scratch.slice(-6),
      scratch,
      directories,
      user,
      environment: {
        ...gitEnvironment(settingsFor(remote, addresses, credentials.token)),
        // Not the host's PATH: it may name folders that the sandbox does not have.
        PATH: searchPath().join(delimiter),
        HOME: directories.home,
        ...(SSL_CERT_FILE && { GIT_SSL_CAINFO: SSL_CERT_FILE }),
        ...(isSsh && sshVariables(directories.home, remote, addresses, credentials.knownHosts.length > 0)),
      },
      read: await certificateFiles(),
      cwd: directories.project,
      memoryMb: limits.memoryMb,
    });
    const lines: string[] = [];
    const size = sizeLimits(scratch, directories.cache, limits);
    try {
      await run({
        arguments: confined.arguments,
        title: 'git fetch',
        cwd: confined.cwd,
        environment: confined.environment,
        watch: (ended, pid) => Promise.race([watchSize(size, ended), confined.watch(ended, pid)]),
        timeoutMs: DEADLINE_MS,
        signal,
        onLine: (line) => {
          confined.onLine(line);
          lines.push(line);
          if (lines.length > EXPLAINING_LINES) lines.shift();
        },
      });
    } catch (error) {
      signal.throwIfAborted();
      const failure = reason(error);
      throw new BuildFailure((await confined.explain(failure)) ?? explanation(lines, remote) ?? failure);
    } finally {
      await confined.end();
    }
    const sha = lines.map((line) => /^commit ([0-9a-f]{40})$/.exec(line)?.[1]).find(Boolean);
    if (sha === undefined) throw new BuildFailure('it has no commits');
    return { sha, knownHosts: isSsh ? await readKnownHosts(join(directories.home, KNOWN_HOSTS)) : [] };
  }
}

/** @throws {BuildFailure} when `work` takes too long */
async function inTime<T>(work: (aborted: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  try {
    return await work(AbortSignal.any([signal, deadline]));
  } catch (error) {
    if (error !== deadline.reason) throw error;
    throw new BuildFailure(`it took longer than ${DEADLINE_MS / 1000} s${minimumCpuShare.excuse}`);
  }
}

/** Reads the server's keys that SSH has kept. The fetching process may have replaced the file by a link or a pipe. */
async function readKnownHosts(path: string): Promise<string[]> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const state = await file.stat();
    if (!state.isFile() || state.size > KNOWN_HOSTS_BYTES)
      throw new Error('SSH did not store the key of the server');
    return (await file.readFile('utf8')).split('\n').filter((line) => line !== '');
  } finally {
    await file.close();
  }
}

async function requireEmpty(repository: string): Promise<void> {
  if ((await resolveCommit(repository, DEPLOY_REF)) === null) return;
  throw new Refusal(409, 'commit_conflict', 'the app has commits already; only an empty app can import');
}

/** Lets the host's git index the pack, and check its contents like a push. */
async function takePack(
  repository: string,
  project: string,
  maxMb: number,
  signal: AbortSignal,
): Promise<void> {
  const name = (await readdir(project)).find((file) => /^whole-[0-9a-f]{40}\.pack$/.test(file));
  if (name === undefined) throw new Error('git made no pack');
  // The fetching process may have replaced the pack by a link or a pipe.
  const file = await open(
    join(project, name),
    constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
  );
  try {
    if (!(await file.stat()).isFile()) throw new Error('git made no pack');
    const limit = `--max-input-size=${maxMb * 2 ** 20}`;
    const words = [...gitProgram(), '--git-dir', repository, 'index-pack', '--stdin', strictness(), limit];
    const child = await startJob(words, { title: 'git index-pack', environment: gitEnvironment() });
    const end = () => child.end();
    signal.addEventListener('abort', end);
    let errors = '';
    child.stderr.on('data', (chunk: Buffer) => {
      errors = (errors + chunk.toString('utf8')).slice(-1000);
    });
    child.stdout.resume();
    await pipeline(file.createReadStream({ autoClose: false }), child.stdin).catch(() => {});
    const { code } = await child.closed;
    signal.removeEventListener('abort', end);
    signal.throwIfAborted();
    if (code !== 0) throw new BuildFailure(errors.trim().replace(/^(fatal|error): /gm, ''));
  } finally {
    await file.close();
  }
}
