// Makes releases of a folder's project.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { BuildFailure } from '../../../bundler/failure.ts';
import { filesIn } from '../../../bundler/files-in.ts';
import type { Release } from '../../../bundler/release.ts';
import { newId } from '../../../handlers/contract/id.ts';
import { NO_SETTINGS } from '../../builds/release/build-input.ts';
import { type CertificateOf, type KeyOf, placeBundle, readRelease } from '../../builds/release/release.ts';
import { type Layout, writeAtomic } from '../../disk/data-directory.ts';
import { removeTree } from '../../disk/remove.ts';
import { emptyNames, type StorageNames } from '../../storage/names.ts';
import { compiledDirectory } from '../../threads/compile-cache.ts';
import { Folder } from './folder.ts';

export interface BuiltRelease {
  deployId: string;
  directory: string;
  release: Release;
  /** The storage names to save once it is live. */
  storage: StorageNames;
  /** A hash of the bundle's description and files: releases with the same hash behave alike. */
  digest: string;
}

export interface ProjectOptions {
  folder: string;
  appId: string;
  paths: Layout;
  /** File for the storage names of the app. */
  names: string;
  /** The environment of its Wrangler configuration; null for the top level. */
  environment: string | null;
  /** Called after each step of the build, with its duration in ms. */
  onStep: (words: string, ms: number) => void;
  /** Receives the output of the build command, and notes about the project. */
  onLine: (line: string) => void;
}

/** Makes up keys for the classes of other apps. Those apps do not run here, so a key only serves to make ids of objects. */
const keyOf: KeyOf = async ({ script, className }) => `${script}-${className}`;

/** The account's certificates are not here: requests are sent without them. */
const certificateOf: CertificateOf = async (named) => ({ ...named, chain: '', sealedKey: null });

export class Project {
  readonly #options: ProjectOptions;
  readonly #folder: Folder;
  #notes = '';
  #live: BuiltRelease | null = null;

  constructor(options: ProjectOptions) {
    this.#options = options;
    const { paths, appId } = options;
    this.#folder = new Folder({
      ...options,
      settings: NO_SETTINGS,
      compiled: compiledDirectory() ?? paths.compiled,
      cache: paths.cache(appId),
    });
  }

  /** Whether a build command must run before the project can be bundled. */
  get hasBuild(): boolean {
    return this.#folder.hasBuild;
  }

  /** The project's folder, relative to the repository; empty for the repository itself, and before the first plan. */
  get folder(): string {
    return this.#folder.project;
  }

  /**
   * Makes a release of the current content of the folder.
   * @param changed paths that have changed since the last call; null when all may have
   * @throws {BuildFailure} for an error in the project
   * @throws the signal's reason once it is aborted
   */
  async make(changed: string[] | null, signal: AbortSignal): Promise<BuiltRelease> {
    const { paths, appId, onStep } = this.#options;
    await this.#folder.build(changed, signal);
    const from = performance.now();
    const deployId = newId();
    const directory = paths.release(appId, deployId);
    const out = `${directory}.new`;
    try {
      const { bundle, notes } = await this.#folder.bundle(out);
      this.#printNotes(notes);
      signal.throwIfAborted();
      const live = this.#live && (await readRelease(this.#live.directory));
      const digest = await digestOf(bundle, out);
      // No other app runs here that could get the events. The returned release names them, for a warning.
      const { tailConsumers, ...served } = bundle;
      const placed = await placeBundle(
        served,
        { deployId, sha: '', storage: this.#names(), live, isPreview: false, keyOf, certificateOf },
        out,
        directory,
      );
      onStep('bundled', performance.now() - from);
      const release = { ...placed.release, ...(tailConsumers && { tailConsumers }) };
      return { deployId, directory, digest, ...placed, release };
    } catch (error) {
      await removeTree(out);
      throw error;
    }
  }

  /** Marks a release as live and saves its storage names. `tidy` removes the releases before it. */
  serves(made: BuiltRelease): void {
    if (this.#live?.deployId === made.deployId) return;
    writeAtomic(this.#options.names, JSON.stringify(made.storage));
    this.#live = made;
  }

  /** Whether a release behaves like the live one. */
  isSame({ digest }: BuiltRelease): boolean {
    return this.#live?.digest === digest;
  }

  /** Removes all releases except the live one. */
  async tidy(): Promise<void> {
    const { paths, appId } = this.#options;
    const directory = paths.releases(appId);
    const names = await readdir(directory).catch(() => []);
    for (const name of names) if (name !== this.#live?.deployId) await removeTree(join(directory, name));
  }

  close(): void {
    this.#folder.close();
  }

  #names(): StorageNames {
    try {
      return { ...emptyNames(), ...JSON.parse(readFileSync(this.#options.names, 'utf8')) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return emptyNames();
      throw new BuildFailure(`${this.#options.names} cannot be read: ${(error as Error).message}`);
    }
  }

  /** Prints notes about the project, if they have changed. */
  #printNotes(notes: string[]): void {
    const all = notes.join('\n');
    if (all !== this.#notes) for (const note of notes) this.#options.onLine(note);
    this.#notes = all;
  }
}

async function digestOf(bundle: object, directory: string): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(bundle));
  for (const path of filesIn(directory))
    hash
      .update(path)
      .update('\0')
      .update(readFileSync(join(directory, path)));
  return hash.digest('base64');
}
