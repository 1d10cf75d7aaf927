// Imports a public repository. Git fetches and packs it in the sandbox of builds, only from the addresses that DNS returned before.
// The host's git then checks the pack like a push.
import { lookup } from 'node:dns/promises';
import { constants } from 'node:fs';
import { mkdtemp, open, readdir } from 'node:fs/promises';
import { isIP } from 'node:net';
import { delimiter, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { BuildFailure } from '../../../bundler/failure.ts';
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
import { confine } from '../commands/confine.ts';
import { makeDirectories } from '../commands/environment.ts';
import { certificateFiles, networkVariables } from '../commands/network-settings.ts';
import { run } from '../commands/run.ts';
import type { BuildInput } from '../release/build-input.ts';
import { requireDisk, sizeLimits, watchSize } from '../usage/size.ts';

/** Limits of the queue of imports. Each import may use the memory of a build. */
const LIMITS = { name: 'imports', running: 2, runningPerOwner: 1, waitingPerOwner: 8 };
/** Timeout of an import, in ms. */
const DEADLINE_MS = 300_000;
/** Minimum rate of the server in bytes per second. The fetch is aborted after this many seconds below it. */
const SLOW = { bytes: 1_000, seconds: 30 };
/** Number of git's last lines that are searched for the reason of a failure. */
const EXPLAINING_LINES = 20;
/** The user that runs the fetch when the host is root. No app uses it. */
const NOBODY: User = { uid: 65_534, gid: 65_534 };
/** Fetches one branch, packs what it has, and prints its commit. */
const FETCH = `git clone --quiet --bare --single-branch --no-tags --template= -- "$1" . &&
git rev-parse --verify --quiet 'HEAD^{commit}' &&
echo HEAD | git pack-objects --quiet --revs --delta-base-offset whole >/dev/null`;

export interface ImportsOptions {
  paths: Layout;
  isolation: Isolation;
  limits: BuildInput['limits'];
  /** The addresses allowed for a repository. */
  reachable: PublicAddresses;
}

export class Imports {
  readonly #options: ImportsOptions;
  readonly #queue = new FairQueue(LIMITS);

  constructor(options: ImportsOptions) {
    this.#options = options;
  }

  /**
   * Brings the default branch of the repository at `url` into an empty one, for `moveMain`.
   * Accounts take turns.
   * @param url of https, without a user name
   * @throws {Refusal} `commit_conflict` when there are commits, `import_failed` with the reason, `rate_limited`
   * @throws the signal's reason once it is aborted
   */
  async import(owner: string, repository: string, url: URL, signal: AbortSignal): Promise<MadeCommit> {
    try {
      return await this.#queue.run({ owner, signal }, async () => {
        await requireEmpty(repository);
        const deadline = AbortSignal.timeout(DEADLINE_MS);
        const sha = await this.#import(repository, url, AbortSignal.any([signal, deadline]));
        return { sha, before: null };
      });
    } catch (error) {
      if (error instanceof QueueFull) throw new Refusal(429, 'rate_limited', error.message);
      if (signal.aborted || error instanceof Refusal) throw error;
      const late = `it took longer than ${DEADLINE_MS / 1000} s`;
      const why = (error as Error).name === 'TimeoutError' ? late : reason(error);
      throw new Refusal(422, 'import_failed', `the repository could not be imported: ${why}`);
    }
  }

  async #import(repository: string, url: URL, signal: AbortSignal): Promise<string> {
    const { paths, limits, reachable } = this.#options;
    const addresses = await addressesOf(url, reachable);
    requireDisk(paths.builds, limits.worktreeMb, limits.floorMb);
    const scratch = await mkdtemp(join(paths.builds, 'import-'));
    try {
      const sha = await this.#fetch(url, addresses, scratch, signal);
      await takePack(repository, join(scratch, 'project'), limits.worktreeMb, signal);
      if ((await resolveCommit(repository, sha)) !== sha) throw new Error('its pack has no such commit');
      return sha;
    } finally {
      await removeTree(scratch);
    }
  }

  /** Writes a pack of the default branch to the project directory of `scratch`. @returns its commit */
  async #fetch(url: URL, addresses: string[], scratch: string, signal: AbortSignal): Promise<string> {
    const { isolation, limits } = this.#options;
    const user = process.getuid?.() === 0 ? NOBODY : null;
    const directories = makeDirectories(scratch, join(scratch, 'cache'));
    if (user) await changeOwner(Object.values(directories), user, DEADLINE_MS);
    const { SSL_CERT_FILE } = networkVariables();
    const confined = await confine(['/bin/sh', '-c', FETCH, 'sh', url.href], {
      isolation,
      deployId: scratch.slice(-6),
      scratch,
      directories,
      user,
      environment: {
        ...gitEnvironment(settingsFor(url, addresses)),
        // The sandbox has the system's programs, wherever the host itself finds them.
        PATH: searchPath().join(delimiter),
        HOME: directories.home,
        ...(SSL_CERT_FILE && { GIT_SSL_CAINFO: SSL_CERT_FILE }),
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
        title: 'git clone',
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
      throw new BuildFailure((await confined.explain(reason(error))) ?? explanation(lines) ?? reason(error));
    } finally {
      await confined.end();
    }
    const sha = lines.find((line) => /^[0-9a-f]{40}$/.test(line));
    if (sha === undefined) throw new BuildFailure('it has no commits');
    return sha;
  }
}

async function requireEmpty(repository: string): Promise<void> {
  if ((await resolveCommit(repository, DEPLOY_REF)) === null) return;
  throw new Refusal(409, 'commit_conflict', 'the app has commits already; only an empty app can import');
}

/** Returns the reachable addresses of the host in `url`. @throws {BuildFailure} when no address is reachable */
async function addressesOf(url: URL, reachable: PublicAddresses): Promise<string[]> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const found = await lookup(host, { all: true }).catch(() => {
    throw new BuildFailure(`the host ${host} cannot be found; correct the URL`);
  });
  const left = found.map(({ address }) => address).filter((address) => reachable.has(address));
  if (left.length === 0)
    throw new BuildFailure(
      `${host} is not a public address; the operator can let imports reach it (RUNNER_EGRESS_ALLOW)`,
    );
  return left;
}

/** Returns settings for git: HTTPS only, these addresses only, no redirects. */
function settingsFor(url: URL, addresses: string[]): Record<string, string> {
  const pinned = addresses.map((address) => (isIP(address) === 6 ? `[${address}]` : address)).join(',');
  return {
    'protocol.allow': 'never',
    'protocol.https.allow': 'always',
    'http.followRedirects': 'false',
    'http.curloptResolve': `${url.hostname}:${url.port || '443'}:${pinned}`,
    'http.proxy': '',
    'http.lowSpeedLimit': String(SLOW.bytes),
    'http.lowSpeedTime': String(SLOW.seconds),
    'credential.helper': '',
    'transfer.bundleURI': 'false',
  };
}

/** Returns why git failed, for the person who requested the import. */
function explanation(lines: string[]): string | null {
  const said = lines.join('\n');
  if (/could not read Username|Authentication failed/.test(said))
    return 'there is no public repository at this address';
  if (/returned error: 30\d|redirect/.test(said))
    return 'the address leads to another one: give that one, which may be this with `.git` at its end';
  const fatal = lines.findLast((line) => line.startsWith('fatal: '))?.slice('fatal: '.length);
  return fatal ?? null;
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
  // The fetching process may have replaced the pack.
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
