// Keeps the packages that an app's last install made for the next build: an install whose inputs have not changed does not run.
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
 * Moves every folder `node_modules` from the first directory to the second, to the same place below it. `$0` of the inner
 * script is the second. A folder whose place there is a link leads to a failure: the link could leave the directory.
 */
const MOVE = `cd -P -- "$1" && [ "$(pwd -P)" = "$1" ] && find . -type d -name node_modules -prune -exec sh -c '
for path; do
  place=\${path#.}; place=\${place%/node_modules}
  [ "$MAKE" = no ] || mkdir -p -- "$0$place" || exit 1
  [ "$(cd -P -- "$0$place" && pwd -P)" = "$0$place" ] && mv -T -- "$path" "$0$place/node_modules" || exit 1
done' "$2" {} +`;

/** Prints what changes with every file of two directories but those that an install is expected to write. */
const FINGERPRINT = `find "$1" "$2" -name node_modules -prune -o -path "$1/.git" -prune -o -path "$2/.npm" -prune -o -path "$2/*/pnpm" -prune \
  -o ! -type d -printf '%p %y %s %C@\\0' | LC_ALL=C sort -z | sha256sum`;

/** The inputs of an install. */
export interface InstallFacts {
  /** Of manifests, lock files and settings; see `InstallInputs`. */
  digest: string;
  /** The environment of the command, the app's variables among it. */
  environment: Record<string, string>;
  manager: PackageManager;
  /** npm's program, which fetches the other package managers. */
  npm: string;
}

/** The folders `node_modules` of an install, in a build's worktree and kept between builds. */
export class InstallCache {
  readonly #project: string;
  readonly #home: string;
  readonly #all: string;
  readonly #kept: string;
  readonly #user: User | null;
  #before: string | null = null;
  #canBeKept = false;

  /** @param user whose builds they are: all is moved with no more than that user's rights */
  constructor({ project, home, cache }: BuildDirectories, user: User | null, facts: InstallFacts) {
    this.#project = realpathSync(project);
    this.#home = home;
    this.#all = cacheDirectories(realpathSync(cache)).installed;
    this.#kept = join(this.#all, nameOf(this.#project, facts));
    this.#user = user;
  }

  /** Whether the last install had the same inputs. */
  get isThere(): boolean {
    return statSync(this.#kept, { throwIfNoEntry: false })?.isDirectory() ?? false;
  }

  /** Puts what was kept into the worktree. @returns whether that is complete; if not, nothing of it is left there */
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

  /** Remembers what there is before the install. */
  async before(): Promise<void> {
    this.#before = await this.#fingerprint();
  }

  /** Finds out whether the install wrote packages only: what its scripts wrote elsewhere would be missing next time. */
  async after(): Promise<void> {
    this.#canBeKept = this.#before !== null && this.#before === (await this.#fingerprint());
  }

  /** Takes the folders out of the worktree of a build that succeeded. */
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

  /** `null` when not all can be looked at. */
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
    // Scripts of packages may compile for this Node, and write where they lie.
    [process.version, process.arch, project],
  ];
  return createHash('sha256').update(JSON.stringify(inputs)).digest('hex').slice(0, 32);
}
