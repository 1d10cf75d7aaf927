// Bundles a folder's project: plans, builds and bundles it like a deploy, but in the folder itself and as the current user.
import { existsSync, realpathSync, rmSync } from 'node:fs';
import { basename, delimiter, join } from 'node:path';
import type { Bundled } from '../../../bundler/bundle.ts';
import { BuildFailure } from '../../../bundler/failure.ts';
import type { BuildCommand } from '../../../bundler/project/build-command.ts';
import { COMPILED_FUNCTIONS } from '../../../bundler/project/cloudflare-pages.ts';
import { insidePath } from '../../../bundler/project/path-containment.ts';
import type { BuiltProject, Plan } from '../../../bundler/project/plan.ts';
import type { BuildSettings } from '../../../handlers/contract/host/host-calls.ts';
import { packageManager } from '../../builds/commands/package-manager.ts';
import { functionsCommand } from '../../builds/commands/pages-functions.ts';
import { run } from '../../builds/commands/run.ts';
import { Bundler } from '../../builds/release/bundler.ts';

const STEP_TIMEOUT_MS = 600_000;
/** Idle timeout of the bundler's process, in ms: the longest that a timer may have, because the process has to stay. */
const STAYS_MS = 2 ** 31 - 1;
const ASSETS_MB = 2_048;
/** Names of files that affect the build plan. */
const PLANNED =
  /^(wrangler\.(toml|jsonc?)|package\.json|package-lock\.json|pnpm-lock\.yaml|pnpm-workspace\.yaml|yarn\.lock|bun\.lockb?)$/;
/** Files of Pages Functions, relative to the folder. */
const FUNCTIONS = /(^|\/)functions\//;

export interface FolderOptions {
  folder: string;
  settings: BuildSettings;
  /** The environment of its Wrangler configuration; null for the top level. */
  environment: string | null;
  /** Compile cache for the bundler's own code; null for none. */
  compiled: string | null;
  /** Cache directory of package managers, such as for pnpm's store. */
  cache: string;
  /** Called after each step of the build, with its duration in ms. */
  onStep: (words: string, ms: number) => void;
  /** Receives the output of the build command, and notes about the project. */
  onLine: (line: string) => void;
}

export class Folder {
  readonly #options: FolderOptions;
  readonly #bundler = new Bundler(STAYS_MS);
  #plan: Plan | null = null;

  constructor(options: FolderOptions) {
    this.#options = options;
    this.#bundler.codeDirectory = options.compiled;
    this.#bundler.warm();
  }

  /** Whether a build command must run before the project can be bundled. */
  get hasBuild(): boolean {
    return this.#plan !== null && this.#plan.build.length > 0;
  }

  /** The project's folder, relative to the repository; empty for the repository itself, and before the first plan. */
  get project(): string {
    return this.#plan?.folder ?? '';
  }

  /** Runs the build commands of a deploy. @param changed paths that have changed since the last build; null when all may have */
  async build(changed: string[] | null, signal: AbortSignal): Promise<void> {
    const plans = (path: string) => PLANNED.test(basename(path)) || FUNCTIONS.test(path);
    if (this.#plan === null || changed === null || changed.some(plans)) this.#plan = await this.#planned();
    const plan = this.#plan;
    for (const command of plan.build) await this.#build(plan, command, signal);
    if (await this.#bundler.mustCompileFunctions(this.#builtProject(plan), STEP_TIMEOUT_MS))
      await this.#compileFunctions(plan, signal);
    // Removes the output of deleted Pages Functions: the bundler would take it for the project's Worker.
    else
      rmSync(join(realpathSync(this.#options.folder), plan.folder, COMPILED_FUNCTIONS), {
        recursive: true,
        force: true,
      });
    signal.throwIfAborted();
  }

  /**
   * Bundles the current content of the folder into `out`. Call `build` before.
   * @throws {BuildFailure} for an error in the project
   */
  bundle(out: string): Promise<Bundled> {
    const options = { ...this.#builtProject(this.#plan!), out, assetsMb: ASSETS_MB };
    return this.#bundler.bundle(options, STEP_TIMEOUT_MS);
  }

  close(): void {
    this.#bundler.close();
  }

  #builtProject(plan: Plan): BuiltProject {
    const { folder, environment, settings } = this.#options;
    return {
      worktree: folder,
      settings: { ...settings, root_directory: plan.folder || null },
      environment,
      deployLine: plan.deployLine,
      before: plan.pages,
    };
  }

  async #planned(): Promise<Plan> {
    const { folder, environment, settings, onLine } = this.#options;
    const manifests = existsSync(join(folder, 'package.json')) ? ['package.json'] : [];
    const plan = await this.#bundler.plan(
      { worktree: folder, settings, environment, manifests },
      STEP_TIMEOUT_MS,
    );
    if (plan.adapter !== null) {
      const { framework, ownCommand } = plan.adapter;
      throw new BuildFailure(
        `${framework} without a Wrangler configuration: only a deploy adds its adapter. Run the framework's own server, as with \`npm run dev\`, or \`${ownCommand}\` and then this command again`,
      );
    }
    const installed = [plan.folder, plan.installFolder].map((each) => join(folder, each, 'node_modules'));
    if (plan.hasDependencies && !installed.some((path) => existsSync(path)))
      onLine('package.json has dependencies, but none is installed: run npm install');
    return plan;
  }

  #build(plan: Plan, build: BuildCommand, signal: AbortSignal): Promise<void> {
    const manager = build.kind === 'script' ? packageManager(plan, this.#options.cache) : null;
    const title = build.kind === 'script' ? `${manager!.name} run build` : build.command;
    const own = build.kind === 'script' ? plan.folder : join(plan.folder, build.cwd);
    const words = build.kind === 'script' ? manager!.build : ['sh', '-c', build.command];
    return this.#run(plan, title, words, own, 'build.cwd', signal);
  }

  /** Compiles the Pages Functions in functions/ to where the bundler looks for the project's Worker. */
  #compileFunctions(plan: Plan, signal: AbortSignal): Promise<void> {
    const { title, arguments: words } = functionsCommand(plan);
    return this.#run(plan, title, words, plan.folder, 'functions', signal);
  }

  async #run(
    plan: Plan,
    title: string,
    words: string[],
    cwd: string,
    what: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { folder, onStep, onLine } = this.#options;
    const from = performance.now();
    const programs = [plan.folder, plan.installFolder].map((each) =>
      join(folder, each, 'node_modules', '.bin'),
    );
    await run({
      arguments: words,
      title,
      cwd: insidePath(folder, folder, cwd || '.', what),
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
}
