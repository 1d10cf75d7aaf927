// The folder's project as a release: planned, built and bundled as a deploy does it, in the folder itself.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { glob, readdir } from 'node:fs/promises';
import { basename, delimiter, join } from 'node:path';
import type { BuildCommand } from '../../bundler/build-command.ts';
import { BuildFailure } from '../../bundler/failure.ts';
import { insidePath } from '../../bundler/inside.ts';
import type { Plan } from '../../bundler/plan.ts';
import type { Release } from '../../bundler/release.ts';
import { newId } from '../../handlers/contract/id.ts';
import { NO_SETTINGS } from '../builds/build-input.ts';
import { Bundler } from '../builds/bundler.ts';
import { packageManager } from '../builds/package-manager.ts';
import { placeBundle, readRelease } from '../builds/release.ts';
import { run } from '../builds/run.ts';
import { type Layout, writeAtomic } from '../machine/data-directory.ts';
import { removeTree } from '../machine/remove.ts';
import { emptyNames, type StorageNames } from '../storage/names.ts';

const STEP_TIMEOUT_MS = 600_000;
/** The bundler's process stays for good: the longest time of a timer, in ms. */
const STAYS_MS = 2 ** 31 - 1;
const ASSETS_MB = 2_048;
/** Names of the files that a plan depends on. */
const PLANNED =
  /^(wrangler\.(toml|jsonc?)|package\.json|package-lock\.json|pnpm-lock\.yaml|yarn\.lock|bun\.lockb?)$/;

export interface Made {
  deployId: string;
  directory: string;
  release: Release;
  /** The names to keep once it serves. */
  storage: StorageNames;
  /** What changes with what the release does. */
  digest: string;
}

export interface ProjectOptions {
  folder: string;
  appId: string;
  paths: Layout;
  /** Where the storage names of the app are kept. */
  names: string;
  /** The environment of its Wrangler configuration; null: the top level. */
  environment: string | null;
  /** Told of steps of the build, with their times in ms. */
  onStep: (words: string, ms: number) => void;
  /** Gets what a build's command prints, and notes about the project. */
  onLine: (line: string) => void;
}

export class Project {
  readonly #options: ProjectOptions;
  readonly #bundler = new Bundler(STAYS_MS);
  #plan: Plan | null = null;
  #notes = '';
  /** The release that serves. */
  #live: Made | null = null;

  constructor(options: ProjectOptions) {
    this.#options = options;
    this.#bundler.codeDirectory = options.paths.compiled;
    this.#bundler.warm();
  }

  /** Whether a command has to run before the project can be bundled. */
  get hasBuild(): boolean {
    return this.#plan !== null && this.#plan.build !== null;
  }

  /**
   * Makes a release of what the folder has now.
   * @param changed paths that have changed since the last time; null: all may have
   * @throws {BuildFailure} for a fault of the project
   * @throws the signal's reason once it is aborted
   */
  async make(changed: string[] | null, signal: AbortSignal): Promise<Made> {
    const { folder, environment, paths, appId, onStep } = this.#options;
    if (this.#plan === null || changed === null || changed.some((path) => PLANNED.test(basename(path))))
      this.#plan = await this.#planned();
    const plan = this.#plan;
    if (plan.build !== null) await this.#build(plan, plan.build, signal);
    signal.throwIfAborted();
    const from = performance.now();
    const deployId = newId();
    const directory = paths.release(appId, deployId);
    const out = `${directory}.new`;
    try {
      const { bundle, notes } = await this.#bundler.bundle(
        {
          worktree: folder,
          settings: { ...NO_SETTINGS, root_directory: plan.folder || null },
          out,
          environment,
          assetsMb: ASSETS_MB,
          before: plan.pages,
        },
        STEP_TIMEOUT_MS,
      );
      this.#tell(notes);
      signal.throwIfAborted();
      const live = this.#live && (await readRelease(this.#live.directory));
      const digest = await digestOf(bundle, out);
      const placed = await placeBundle(
        bundle,
        { deployId, sha: '', storage: this.#names(), live, isPreview: false },
        out,
        directory,
      );
      onStep('bundled', performance.now() - from);
      return { deployId, directory, digest, ...placed };
    } catch (error) {
      await removeTree(out);
      throw error;
    }
  }

  /** Keeps what belongs to a release that serves from now on, for good, and removes the releases before it. */
  serves(made: Made): void {
    if (this.#live?.deployId === made.deployId) return;
    writeAtomic(this.#options.names, JSON.stringify(made.storage));
    this.#live = made;
  }

  /** Whether a release does what the one does that serves. */
  isSame({ digest }: Made): boolean {
    return this.#live?.digest === digest;
  }

  /** Removes all releases but the one that serves. */
  async tidy(): Promise<void> {
    const { paths, appId } = this.#options;
    const directory = paths.releases(appId);
    const names = await readdir(directory).catch(() => []);
    for (const name of names) if (name !== this.#live?.deployId) await removeTree(join(directory, name));
  }

  close(): void {
    this.#bundler.close();
  }

  async #planned(): Promise<Plan> {
    const { folder, environment } = this.#options;
    const manifests = existsSync(join(folder, 'package.json')) ? ['package.json'] : [];
    const plan = await this.#bundler.plan(
      { worktree: folder, settings: NO_SETTINGS, environment, manifests },
      STEP_TIMEOUT_MS,
    );
    if (plan.hasFunctions)
      throw new BuildFailure('functions/ is compiled on a deploy alone: `wrangler pages dev` serves it here');
    if (plan.hasDependencies && !existsSync(join(folder, 'node_modules')))
      this.#options.onLine('package.json names packages, and none is installed here: npm install');
    return plan;
  }

  /** Runs what a deploy runs before it bundles. */
  async #build(plan: Plan, build: BuildCommand, signal: AbortSignal): Promise<void> {
    const { folder, paths, appId, onStep, onLine } = this.#options;
    const from = performance.now();
    const manager = build.kind === 'script' ? packageManager(plan, paths.cache(appId)) : null;
    const title = build.kind === 'script' ? `${manager!.name} run build` : build.command;
    const own = build.kind === 'script' ? plan.folder : join(plan.folder, build.cwd);
    const programs = [plan.folder, plan.installFolder].map((each) =>
      join(folder, each, 'node_modules', '.bin'),
    );
    await run({
      arguments: build.kind === 'script' ? manager!.build : ['sh', '-c', build.command],
      title,
      cwd: insidePath(folder, folder, own || '.', 'build.cwd'),
      environment: {
        ...(process.env as Record<string, string>),
        PATH: [...programs, process.env.PATH].join(delimiter),
      },
      timeoutMs: STEP_TIMEOUT_MS,
      signal,
      onLine,
    });
    onStep(`\`${title}\` ended`, performance.now() - from);
  }

  #names(): StorageNames {
    try {
      return { ...emptyNames(), ...JSON.parse(readFileSync(this.#options.names, 'utf8')) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return emptyNames();
      throw new BuildFailure(`${this.#options.names} cannot be read: ${(error as Error).message}`);
    }
  }

  /** Says what there is to say about the project, once. */
  #tell(notes: string[]): void {
    const all = notes.join('\n');
    if (all !== this.#notes) for (const note of notes) this.#options.onLine(note);
    this.#notes = all;
  }
}

async function digestOf(bundle: object, directory: string): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(bundle));
  const files: string[] = [];
  for await (const entry of glob('**', { cwd: directory, withFileTypes: true }))
    if (entry.isFile()) files.push(join(entry.parentPath, entry.name));
  for (const path of files.sort())
    hash.update(path.slice(directory.length)).update('\0').update(readFileSync(path));
  return hash.digest('base64');
}
