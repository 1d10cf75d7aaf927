// Runs one deploy from its turn to its end: makes a release, makes it live, and records the result.
import { EventEmitter, once } from 'node:events';
import type { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { ClassContainer } from '../../../bundler/release.ts';
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import { cutText } from '../../../handlers/contract/text.ts';
import type { Secrets } from '../../apps/secrets.ts';
import { describeCommit } from '../../git/repository.ts';
import { type Level, log, reason } from '../../log.ts';
import { minimumCpuShare } from '../../resources/low-priority.ts';
import { emptyNames, type StorageNames } from '../../storage/names.ts';
import type { AfterBuild } from '../release/build.ts';
import { checkSecrets, reportOverrides } from '../release/check-secrets.ts';
import { checkServices } from '../release/check-services.ts';
import { readRelease } from '../release/release.ts';
import { sharedStorageWarning } from '../release/shared-storage.ts';
import { DeletedClassData } from './deleted-class-data.ts';
import type { DeployLog } from './deploy-log.ts';
import { DeployRecord, type RecordOptions } from './deploy-record.ts';
import { Follower } from './follower.ts';
import { makeLive } from './make-live.ts';
import { type DeploySource, makeRelease, type ReleaseOptions, removeLeft } from './make-release.ts';
import { reportOrphanedClasses } from './orphaned-classes.ts';

/** Maximum characters of a failure in the deploy's row; the log has all of it. */
const ERROR_LENGTH = 4_000;
/** Maximum warnings about storage that other apps name too. */
const SHARED_STORAGE_WARNINGS = 5;
/** The beginning of `INTERRUPTED` in all versions of Cellar. */
const INTERRUPTED_PREFIX = 'interrupted: ';
/** The error of an interrupted deploy: the host stopped, or the app moved to another host. */
export const INTERRUPTED = `${INTERRUPTED_PREFIX}the host was stopped, or the app moved to another host; a push is deployed again by itself`;

/** Whether the release was never live in this app. A release that was live has filled its cache already (`Apps.prefill`). */
function isNew({ kind }: DeploySource): boolean {
  return kind !== 'release' && kind !== 'triggers';
}

/** Whether the deploy was interrupted: the host stopped, or the app moved to another host. */
export function isInterrupted({ status, error }: DeployFact): boolean {
  return status === 'failed' && error?.startsWith(INTERRUPTED_PREFIX) === true;
}

export interface DeployOptions extends ReleaseOptions, RecordOptions {
  secrets: Secrets;
  /** Called with each line of a deploy's log, for the app's log. */
  say: (appId: string, deployId: string, level: Level, words: string) => void;
  /** Takes a snapshot of the app before classes lose their data. @returns its key */
  snapshot: (appId: string) => Promise<string>;
  /** Copies the parent app's data to the new preview `appId`, if the parent's settings ask for it. */
  copyIntoPreview: (appId: string, log: (line: string) => void, signal: AbortSignal) => Promise<void>;
  /** Maximum seconds of CPU time that an app may use without a pause (`RUNNER_CELL_CPU_MAX_S`). */
  cpuMaxS: number;
  /** Whether there is a container engine (`RUNNER_CONTAINER_ENGINE`). */
  hasContainers: boolean;
}

export class Deploy {
  readonly #source: DeploySource;
  readonly #options: DeployOptions;
  readonly #record: DeployRecord;
  readonly #events = new EventEmitter<{ line: [string]; end: [] }>();
  readonly #abort = new AbortController();
  readonly #madeWay = new AbortController();
  /** The final status when it is cancelled. */
  #cancelledAs: 'failed' | 'cancelled' = 'failed';
  /** What is left to do after the release was made; null before. */
  #afterBuild: AfterBuild | null = null;
  readonly #deletedClasses: DeletedClassData;

  /** @throws when it cannot be recorded: then the deploy does not exist */
  constructor(options: DeployOptions, fact: DeployFact, source: DeploySource) {
    this.#options = options;
    this.#source = source;
    this.#events.setMaxListeners(0);
    this.#record = new DeployRecord(options, fact, this.releaseOf, (line, level) => {
      options.say(fact.app_id, fact.id, level, line);
      this.#events.emit('line', line);
    });
    this.#deletedClasses = new DeletedClassData(options, fact, this.#log);
  }

  get fact(): Readonly<DeployFact> {
    return this.#record.fact;
  }

  /** For a rollback: the earlier deploy whose release it starts again; else `null`. */
  get releaseOf(): string | null {
    return this.#source.kind === 'release' ? this.#source.of : null;
  }

  /** Whether it runs a build, which may take long. */
  get builds(): boolean {
    return this.#source.kind === 'commit';
  }

  /** The app whose repository and secrets it uses. For a preview: its parent app. */
  get #origin(): string {
    return this.#options.apps.originOf(this.fact.app_id);
  }

  get #log(): DeployLog {
    return this.#record.log;
  }

  get #ended(): boolean {
    return this.fact.finished_at !== null;
  }

  /** Adds the commit's message and author to the row. Never rejects: a deploy does not need them. */
  async describe(): Promise<void> {
    try {
      const description = await this.#options.apps.withRepository(this.#origin, (repository) =>
        describeCommit(repository, this.fact.sha),
      );
      this.#record.change(description);
    } catch (error) {
      log('warn', 'a commit could not be described', { deploy: this.fact.id, error: reason(error) });
    }
  }

  /** Logs why it does not begin yet. */
  waits(reason: string): void {
    this.#log.line(`▸ queued: ${reason}`, 'info');
  }

  /** Ends it before its turn: a newer deploy of the app replaces it. @param by the newer deploy's id */
  supersede(by: string): void {
    this.#log.line(`superseded by deploy ${by}`, 'info');
    this.#end('superseded', null);
  }

  /** Whether it can still be cancelled: it has not ended, its release is not live, and it was not cancelled before. */
  get mayBeCancelled(): boolean {
    return !this.#ended && this.fact.status !== 'live' && !this.#abort.signal.aborted;
  }

  /**
   * Cancels it, whether it waits or builds. A release that is already live stays live.
   * @param as the final status
   */
  cancel(why: string, as: 'failed' | 'cancelled' = 'failed'): void {
    this.#cancelledAs = as;
    this.#abort.abort(new Error(why));
    if (this.fact.status !== 'queued') return;
    this.#log.line(as === 'failed' ? `deploy failed: ${why}` : `deploy ${why}`, 'error');
    this.#end(as, why);
  }

  /** Resolves when it has ended, or `signal` aborts. Never rejects. */
  async untilEnded(signal?: AbortSignal): Promise<void> {
    if (!this.#ended) await once(this.#events, 'end', signal && { signal }).catch(() => {});
  }

  /** Makes the release and makes it live. Resolves when the row has the result. A failed deploy does not reject. */
  run(): Promise<void> {
    return minimumCpuShare.during(() => this.#run());
  }

  async #run(): Promise<void> {
    const { paths, apps, users, isolation, secrets } = this.#options;
    const { id, app_id } = this.fact;
    this.#record.change({ status: 'building', started_at: new Date().toISOString() });
    try {
      const values = secrets.values(this.#origin);
      this.#log.hide([...Object.values(apps.get(app_id)?.wanted.env ?? {}), ...Object.values(values)]);
      await isolation.cover(users(app_id));
      if (this.#origin !== app_id)
        await this.#options.copyIntoPreview(app_id, (line) => this.#log.line(line), this.#abort.signal);
      const before = { ...emptyNames(), ...this.#options.store.apps.storageNames(app_id) };
      const storage = await this.#makeRelease();
      const names = { before, after: { ...emptyNames(), ...storage } };
      await reportOrphanedClasses(paths.release(app_id, id), names, this.#log);
      await checkSecrets(paths.release(app_id, id), values, this.#log);
      const overrides = apps.get(app_id)?.wanted.vars ?? {};
      await reportOverrides(paths.release(app_id, id), overrides, Object.keys(values), this.#log);
      const owned = { appId: app_id, apps, isPushed: this.#source.kind === 'commit' };
      const { consumes, warnings: shared } = await checkServices(paths.release(app_id, id), owned, this.#log);
      const release = (await readRelease(paths.release(app_id, id)))!;
      const { warnings: known = [], cpuMs = 0, prefill, vectorIndexes = [], containers = [] } = release;
      if (vectorIndexes.length > 0 && apps.clusterOf(app_id) !== null)
        throw new Error(
          `vectorize: ${vectorIndexes[0]!.binding}: an app that keeps its data in the bucket cannot have vector indexes; move it to this machine`,
        );
      if (containers.length > 0 && apps.clusterOf(app_id) !== null)
        throw new Error(
          `containers: ${containers[0]!.className}: an app that keeps its data in the bucket cannot have containers; move it to this machine`,
        );
      const limited = [this.#cpuWarning(cpuMs), this.#containerWarning(containers)];
      const more = [
        ...limited.filter((text) => text !== null),
        ...shared,
        ...(await this.#sharedStorage(names.after)),
      ];
      for (const warning of more) this.#log.line(`warning: ${warning}`, 'warn');
      const warnings = [...known, ...more];
      this.#abort.signal.throwIfAborted();
      if (prefill && isNew(this.#source))
        await this.#log.step('cache', `into ${prefill.binding}, files: ${prefill.files}`, () =>
          apps.prefill(app_id, id, prefill, this.#abort.signal),
        );
      const code = apps.get(app_id)?.code;
      if (code)
        await this.#log.step('store', 'in the bucket', () => code.releases.store(id, this.#abort.signal));
      // The release command runs as late as possible, because nothing can undo it.
      await this.#afterBuild?.beforeLive?.();
      const served = apps.get(app_id)?.liveDeployId ?? null;
      const detail = served === null ? 'the first release' : `in place of deploy ${served}`;
      await this.#log.step('start', detail, () =>
        makeLive(this.#options, this.#record, {
          storage,
          consumes,
          warnings,
          signal: this.#abort.signal,
        }),
      );
      await this.#deletedClasses.find(storage);
      await this.#afterBuild?.tidy();
      this.#end('live', null);
    } catch (error) {
      const message = reason(this.#abort.signal.aborted ? this.#abort.signal.reason : error);
      const cut = this.#abort.signal.aborted ? this.#cancelledAs : 'failed';
      this.#log.line(cut === 'failed' ? `deploy failed: ${message}` : `deploy ${message}`, 'error');
      const serving = apps.get(app_id)?.liveDeployId;
      if (serving && serving !== id) this.#log.line(`deploy ${serving} stays live`, 'info');
      if (this.fact.status !== 'live') await removeLeft(paths.release(app_id, id));
      this.#end(this.fact.status === 'live' ? 'live' : cut, message);
    } finally {
      await this.#afterBuild?.tidy();
    }
  }

  /** Aborts when a newer deploy of the app waits. */
  get madeWay(): AbortSignal {
    return this.#madeWay.signal;
  }

  /**
   * Call it when a newer deploy of the app waits. This one then skips the delay before its files are removed, and leaves the
   * data of deleted classes to the newer one.
   */
  makeWay(): void {
    this.#madeWay.abort(new Error('a newer deploy waits'));
  }

  /** Snapshots the data of classes that the project has deleted, then moves it to the trash or removes it. Never rejects. */
  async throwClassesAway(): Promise<void> {
    if (this.#deletedClasses.isEmpty) return;
    await this.#deletedClasses.throwAway(AbortSignal.any([this.#abort.signal, this.madeWay]));
    this.#record.write();
  }

  /** Removes the build's files. Never rejects. */
  tidy(): Promise<void> {
    return minimumCpuShare.during(() => removeLeft(this.#options.paths.build(this.fact.app_id)));
  }

  /**
   * Writes the log so far to `output`, then each new line. Drops lines while the output is read too slowly (`Follower`).
   * When the deploy has ended, writes the text that `last` resolves with, and ends the output.
   */
  follow(output: Writable, last: (deploy: DeployFact) => Promise<string>): void {
    const follower = new Follower(output);
    const write = (line: string) => follower.write(line);
    output.on('error', () => this.#events.off('line', write));
    const end = () => {
      this.#events.off('line', write);
      last(this.fact).then(
        (text) => follower.end(text),
        () => follower.end(''),
      );
    };
    if (this.#log.text !== '') output.write(this.#log.text);
    if (this.#ended) end();
    else this.#events.on('line', write).once('end', end);
  }

  /** Returns a warning for the author if the release's CPU limit exceeds the host's; otherwise null. */
  #cpuWarning(cpuMs: number): string | null {
    const { cpuMaxS } = this.#options;
    if (cpuMs <= cpuMaxS * 1000) return null;
    return `limits.cpu_ms is ${cpuMs}, but this Cellar allows at most ${cpuMaxS * 1000} (RUNNER_CELL_CPU_MAX_S), which is the app's limit now`;
  }

  #containerWarning([first]: ClassContainer[]): string | null {
    if (first === undefined || this.#options.hasContainers) return null;
    return `containers: ${first.className}: this Cellar has no container engine (RUNNER_CONTAINER_ENGINE), so ctx.container is undefined`;
  }

  /** Returns a warning for each of the owner's other apps that names the same storage, up to `SHARED_STORAGE_WARNINGS`. */
  async #sharedStorage(names: StorageNames): Promise<string[]> {
    const { apps, store } = this.#options;
    const warnings: string[] = [];
    for (const { id, slug } of apps.neighboursOf(this.#origin)) {
      // Lets the host serve requests before each app, because an owner may have many.
      await setImmediate();
      const warning = sharedStorageWarning(names, { slug, names: store.apps.storageNames(id) });
      if (warning !== null) warnings.push(warning);
      if (warnings.length === SHARED_STORAGE_WARNINGS) break;
    }
    return warnings;
  }

  /** @returns the storage names to keep once the release is live */
  async #makeRelease(): Promise<object> {
    const { storage, ...afterBuild } = await makeRelease(this.#options, {
      deploy: this.fact,
      source: this.#source,
      log: this.#log,
      signal: this.#abort.signal,
    });
    this.#afterBuild = afterBuild;
    return storage;
  }

  #end(status: DeployFact['status'], error: string | null): void {
    this.#record.change({
      status,
      error: error && cutText(this.#log.shown(error), ERROR_LENGTH, ' …'),
      steps: this.#log.steps,
      finished_at: new Date().toISOString(),
    });
    this.#events.emit('end');
    log(status === 'failed' ? 'warn' : 'info', 'deploy ended', {
      deploy: this.fact.id,
      app: this.fact.app_id,
      status,
      error: error ?? undefined,
    });
  }
}
