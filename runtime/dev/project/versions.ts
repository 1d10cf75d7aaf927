// The versions of a folder's app: each save makes one, which goes live once it has started. One is made at a time.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { BuildFailure } from '../../../bundler/failure.ts';
import { someOf } from '../../../handlers/contract/text.ts';
import type { Fleet } from '../../fleets/life/fleet.ts';
import { reason } from '../../log.ts';
import { toSourcePlaces } from '../../telemetry/errors/source-places.ts';
import { type Terminal, took } from '../terminal.ts';
import type { BuiltRelease, Project } from './project.ts';
import { readVariables } from './variables.ts';
import { missingBindingsWarning, secretWarnings } from './warnings.ts';

export interface VersionsOptions {
  folder: string;
  /** The environment of the Wrangler configuration; null for the top level. */
  environment: string | null;
  project: Project;
  fleet: Fleet;
  terminal: Terminal;
  /** Whether there is an AI server. */
  hasAi: boolean;
  /** Called with a new text each time that pages must reload. */
  onChange: (text: string) => void;
}

export class Versions {
  readonly #options: VersionsOptions;
  #variables: Record<string, string> = {};
  /** The variables, and the notes about them, of the last reading, as JSON. */
  #read = '';
  /** The variables of the live version. */
  #served: Record<string, string> | null = null;
  /** The last warning about bindings that have no target here. */
  #missing = '';
  /** Paths that have changed since the last version was made; null when all files must be checked. */
  #changed: string[] | null = null;
  /** Aborts the version that is being made. */
  #making: AbortController | null = null;
  #work: Promise<void> = Promise.resolve();
  /** Settles when the live version has passed or failed the trial of a deploy. */
  #trial: Promise<void> = Promise.resolve();
  #failure: string | null = null;
  readonly #first = Promise.withResolvers<void>();
  #isFirst = true;
  #ended = false;

  constructor(options: VersionsOptions) {
    this.#options = options;
  }

  /** The secrets for the next process. */
  get variables(): Record<string, string> {
    return this.#variables;
  }

  /** Why the newest version failed; null when it has not failed. */
  get failure(): string | null {
    return this.#failure;
  }

  /** Whether the first version is still being made. */
  get isFirst(): boolean {
    return this.#isFirst;
  }

  /** Settles when the first version has started or failed. */
  get first(): Promise<void> {
    return this.#first.promise;
  }

  /** Makes the first version. */
  start(): void {
    this.#next('');
  }

  /** Cancels the version that is being made, and makes no more. */
  end(): void {
    this.#ended = true;
    this.#making?.abort(new Error('it was ended'));
  }

  /** Resolves when no work on versions is left. */
  async settled(): Promise<void> {
    await Promise.all([this.#work, this.#trial]);
  }

  /** Call it when files were changed or removed. @param paths their paths, relative to the folder */
  saved(paths: string[]): void {
    if (this.#ended) return;
    this.#changed?.push(...paths);
    // The version that is being made is outdated.
    this.#making?.abort(new Error('there is a newer save'));
    this.#next(this.#shown(paths));
  }

  /** Describes the changed files in words. */
  #shown(paths: string[]): string {
    const { saved = [], removed = [] } = Object.groupBy(paths, (path) =>
      existsSync(join(this.#options.folder, path)) ? 'saved' : 'removed',
    );
    const words = (of: string[], what: string) => (of.length === 0 ? [] : [`${someOf(of, 3)} ${what}`]);
    return [...words(saved, 'saved'), ...words(removed, 'removed')].join('; ');
  }

  /** Reads the variables in the project's folder, which the build plan sets. Keeps the same object if nothing has changed. */
  #readVariables(): void {
    const { folder, project, environment, terminal } = this.#options;
    const notes: string[] = [];
    const variables = readVariables(join(folder, project.folder), environment, (note) => notes.push(note));
    const read = JSON.stringify([variables, notes]);
    if (read === this.#read) return;
    this.#read = read;
    this.#variables = variables;
    for (const note of notes) terminal.say(note, 'yellow');
  }

  /** Queues the next version. @param why the changed files; empty at the start */
  #next(why: string): void {
    const making = new AbortController();
    this.#making = making;
    this.#work = this.#work.then(async () => {
      if (making.signal.aborted) return;
      if (why !== '') this.#options.terminal.say(why, 'dim');
      await this.#make(making.signal);
      await this.#options.project.tidy().catch(() => {});
      if (making.signal.aborted) return;
      this.#isFirst = false;
      this.#first.resolve();
    });
  }

  async #make(signal: AbortSignal): Promise<void> {
    const from = performance.now();
    const changed = this.#changed;
    this.#changed = [];
    try {
      const made = await this.#options.project.make(changed, signal);
      this.#readVariables();
      await this.#serve(made, from);
      this.#failure = null;
    } catch (error) {
      // After an abort, the next version includes these changes. After a failure, it checks all files.
      this.#changed = signal.aborted && changed !== null ? [...changed, ...(this.#changed ?? [])] : null;
      if (!signal.aborted) this.#failed(error);
    }
  }

  async #serve(made: BuiltRelease, from: number): Promise<void> {
    const { project, fleet, terminal } = this.#options;
    const variables = this.#variables;
    if (project.isSame(made) && variables === this.#served && this.#failure === null) {
      terminal.say('the change does not affect the app, which keeps running', 'dim');
      return;
    }
    this.#warn(made);
    const started = performance.now();
    try {
      await fleet.swap(made, {
        commit: async () => project.serves(made),
        log: (line) => terminal.say(line, 'dim'),
        isUntried: true,
      });
    } catch (error) {
      throw new NotStarted(await toSourcePlaces(made.directory, reason(error)));
    }
    this.#served = variables;
    terminal.say(`started in ${took(performance.now() - started)}`, 'dim');
    terminal.say(`serves the saved change after ${took(performance.now() - from)}`, 'green');
    this.#options.onChange(made.deployId);
    this.#trial = this.#try(made);
  }

  /** Tries a live version as a deploy would, and prints the warnings and errors. Never rejects. */
  async #try(made: BuiltRelease): Promise<void> {
    const { fleet, terminal } = this.#options;
    const words = await fleet
      .try(made)
      .catch((error: unknown) => [`a deploy of this version would fail: ${reason(error)}`]);
    if (this.#ended || fleet.liveDeployId !== made.deployId) return;
    for (const each of words) terminal.say(each, 'yellow');
  }

  #failed(error: unknown): void {
    const { fleet, terminal, onChange } = this.#options;
    const words = reason(error);
    this.#failure = words;
    const old = fleet.liveDeployId === null ? '' : '\nThe version before this one still runs.';
    const what = error instanceof BuildFailure ? 'the build failed' : 'the app does not start';
    terminal.fail(`${what}: ${words}${old}`);
    if (fleet.liveDeployId === null) onChange(`failed ${Date.now()}`);
  }

  #warn({ release }: BuiltRelease): void {
    const warnings = secretWarnings(release, Object.keys(this.#variables));
    const missing = missingBindingsWarning(release, this.#options.hasAi);
    // Printed again only when it has changed.
    if (missing !== '' && missing !== this.#missing) warnings.push(missing);
    this.#missing = missing;
    for (const words of warnings) this.#options.terminal.say(words, 'yellow');
  }
}

/** A version was built but does not start. */
class NotStarted extends Error {}
