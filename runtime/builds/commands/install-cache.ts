// Caches the packages of an app's last install. The next build skips its install if the inputs have not changed.
import { createHash } from 'node:crypto';
import { realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { removeTree } from '../../disk/remove.ts';
import { asUser, type User } from '../../isolation/users.ts';
import { runChild } from '../../processes/child.ts';
import { limited } from '../../resources/limited.ts';
import { cacheDirectories } from './cache.ts';
import type { BuildDirectories } from './environment.ts';
import type { PackageManager } from './package-manager.ts';

const TIMEOUT_MS = 60_000;

/**
 * Moves every folder `node_modules` from the first directory to the same path below the second, `$0` of the inner script. Fails
 * when a target's parent is reached by a symbolic link, because it could lead out of the directory.
 */
const MOVE = `cd -P -- "$1" && [ "$(pwd -P)" = "$1" ] && find . -type d -name node_modules -prune -exec sh -c '
for path; do
  place=\${path#.}; place=\${place%/node_modules}
  [ "$MAKE" = no ] || mkdir -p -- "$0$place" || exit 1
  [ "$(cd -P -- "$0$place" && pwd -P)" = "$0$place" ] && mv -T -- "$path" "$0$place/node_modules" || exit 1
done' "$2" {} +`;

/** Prints a hash of the names, sizes and ctimes in two directories, without files that an install is expected to write. */
const FINGERPRINT = `find "$1" "$2" -name node_modules -prune -o -path "$1/.git" -prune -o -path "$2/.npm" -prune -o -path "$2/*/pnpm" -prune \
  -o ! -type d -printf '%p %y %s %C@\\0' | LC_ALL=C sort -z | sha256sum`;

/** What decides whether an install can be taken from the cache. */
export interface InstallFacts {
  /** Digest of manifests, lock files and settings; see `InstallInputs`. */
  digest: string;
  /** The environment of the command, with the app's variables. */
  environment: Record<string, string>;
  manager: PackageManager;
  /** npm's program, which fetches the other package managers. */
  npm: string;
}

/** Moves the folders `node_modules` of an install between a build's worktree and the app's cache. */
export class InstallCache {
  readonly #project: string;
  readonly #home: string;
  readonly #all: string;
  readonly #kept: string;
  readonly #user: User | null;
  #before: string | null = null;
  #canBeKept = false;

  /** @param user the user of the builds: folders are moved with that user's rights */
  constructor({ project, home, cache }: BuildDirectories, user: User | null, facts: InstallFacts) {
    this.#project = realpathSync(project);
    this.#home = home;
    this.#all = cacheDirectories(realpathSync(cache)).installed;
    this.#kept = join(this.#all, nameOf(this.#project, facts));
    this.#user = user;
  }

  /** Whether the cache has an install with the same inputs. */
  get isThere(): boolean {
    return statSync(this.#kept, { throwIfNoEntry: false })?.isDirectory() ?? false;
  }

  /** Moves the cached folders into the worktree. @returns false after a failure; then none is in the worktree */
  async take(): Promise<boolean> {
    try {
      await this.#move(this.#kept, this.#project, 'no');
      this.#canBeKept = true;
    } catch {
      await this.#run([
        'find',
        this.#project,
        '-name',
        'node_modules',
        '-prune',
        '-exec',
        'rm',
        '-rf',
        '{}',
        '+',
      ]);
    }
    await removeTree(this.#all);
    return this.#canBeKept;
  }

  /** Records the state of the files before the install. */
  async before(): Promise<void> {
    this.#before = await this.#fingerprint();
  }

  /**
   * Checks whether the install wrote only packages. If it wrote other files, it is not cached: the next build would lack
   * these.
   */
  async after(): Promise<void> {
    this.#canBeKept = this.#before !== null && this.#before === (await this.#fingerprint());
  }

  /** Moves the folders from the worktree into the cache, if the install can be cached. Call it after a successful build. */
  async keep(): Promise<void> {
    await removeTree(this.#all);
    if (this.#canBeKept) await this.#move(this.#project, this.#kept, 'yes');
  }

  async #move(from: string, to: string, make: 'yes' | 'no'): Promise<void> {
    await this.#run(['sh', '-c', MOVE, 'sh', from, to], { MAKE: make });
  }

  async #run(words: string[], variables: Record<string, string> = {}): Promise<void> {
    await runChild([...limited(), ...(this.#user ? asUser(this.#user) : []), ...words], {
      environment: { PATH: '/usr/bin:/bin', ...variables },
      timeoutMs: TIMEOUT_MS,
    });
  }

  /** Returns the state of the files; `null` when some are unreadable. */
  async #fingerprint(): Promise<string | null> {
    const words = [...limited(), 'sh', '-c', FINGERPRINT, 'sh', this.#project, this.#home];
    const { output, errors } = await runChild(words, { timeoutMs: TIMEOUT_MS });
    return errors === '' ? output.toString('latin1') : null;
  }
}

function nameOf(project: string, { digest, environment, manager, npm }: InstallFacts): string {
  const { name, version, lockFile, install } = manager;
  const program = realpathSync(npm);
  const inputs = [
    digest,
    Object.entries(environment).sort(([a], [b]) => (a < b ? -1 : 1)),
    [name, version, lockFile, install],
    [program, statSync(program).mtimeMs],
    // Scripts of packages may compile for this Node, and store absolute paths.
    [process.version, process.arch, project],
  ];
  return createHash('sha256').update(JSON.stringify(inputs)).digest('hex').slice(0, 32);
}
