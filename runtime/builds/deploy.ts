// One deploy: builds a commit, or takes an earlier release, makes that the live one, and keeps its row and its log
// true meanwhile.
import { EventEmitter, once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Writable } from 'node:stream';
import type { DeployFact, ObservedApp } from '../../handlers/contract/host-calls.ts';
import { cutText } from '../../handlers/contract/text.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { Apps } from '../apps/apps.ts';
import type { Secrets } from '../apps/secrets.ts';
import { describeCommit } from '../git/repository.ts';
import { type Level, log, logRarely, reason } from '../log.ts';
import type { Layout } from '../machine/data-directory.ts';
import { removeLitter } from '../machine/leftovers.ts';
import { removeTree } from '../machine/remove.ts';
import type { AppUsers } from '../machine/users.ts';
import type { Walls } from '../machine/walls.ts';
import { emptyNames, type StorageNames } from '../storage/names.ts';
import { build } from './build.ts';
import { type BuildInput, NO_SETTINGS } from './build-input.ts';
import { DeletedClassData } from './deleted-class-data.ts';
import { DeployLog } from './deploy-log.ts';
import { lineWriter } from './follower.ts';
import { LineBatch } from './line-batch.ts';
import { placeUpload, type Retriggered, reuseRelease } from './releases.ts';
import { checkSecrets } from './secrets.ts';
import { checkServices, requireServices } from './services.ts';
import { requireDisk } from './size.ts';

/** The log and the steps of a deploy under way are written to the database, and told, at most so often. */
const PROGRESS_MS = 100;
/** What could not be written, because the disk is full, say, is tried again after so long. */
const RETRY_MS = 1_000;
/** How long a deploy waits for its sleeping app to be woken. */
const WAKE_DEADLINE_MS = 10_000;
/** While so many facts wait for the control plane, lines stay in their batch, which is bounded. */
const FACTS_WAITING = 100;
/** Characters of a failure that the deploy's row keeps; its log has all of it. */
const ERROR_LENGTH = 4_000;
/** Why a deploy failed that the end of the host cut. */
export const INTERRUPTED = 'interrupted: the host was stopped; a push is deployed again when it is back';

/** Whether a deploy was cut by the end of the host. */
export function isInterrupted({ status, error }: DeployFact): boolean {
  return status === 'failed' && error === INTERRUPTED;
}

/** What a deploy, and the queue of them, need of the rest of the host. */
export interface DeployOptions {
  store: HostStore;
  paths: Layout;
  apps: Apps;
  secrets: Secrets;
  limits: BuildInput['limits'];
  /** The users that an app's builds and process run as. */
  users: (appId: string) => AppUsers;
  walls: Walls;
  /** Gets what the log of a deploy says, for the log of its app. */
  say: (appId: string, deployId: string, level: Level, words: string) => void;
  /** Takes a snapshot that has the app as it is, before classes lose their data. @returns its key */
  snapshot: (appId: string) => Promise<string>;
  /** Gives a new preview a copy of what its app keeps, where the app says so. */
  copyIntoPreview: (appId: string, log: (line: string) => void, signal: AbortSignal) => Promise<void>;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
}

/** What the release of a deploy is made of. */
export type DeploySource =
  | { kind: 'commit' }
  /** The release of an earlier deploy. */
  | { kind: 'release'; of: string }
  /** A version that was uploaded, in its directory, with lines for the log. */
  | { kind: 'upload'; directory: string; notes: string[] }
  /** The release of a preview, in its directory. */
  | { kind: 'preview'; directory: string; name: string }
  /** The release that serves, called by other triggers. */
  | { kind: 'triggers'; triggers: Retriggered };

export class Deploy {
  readonly #source: DeploySource;
  readonly #options: DeployOptions;
  readonly #log: DeployLog;
  /** Lines that the control plane has not been told. */
  readonly #untold = new LineBatch();
  readonly #events = new EventEmitter<{ line: [string]; end: [] }>();
  readonly #abort = new AbortController();
  readonly #succeeded = new AbortController();
  /** What it ends as when it is cut. */
  #cut: 'failed' | 'cancelled' = 'failed';
  #fact: DeployFact;
  /** Whether more than lines has changed since the control plane was told. */
  #changed = false;
  #recording: NodeJS.Timeout | null = null;
  /** The end of what follows a build that succeeded. */
  #tidied: Promise<void> = Promise.resolve();
  readonly #deletedClasses: DeletedClassData;

  /** @throws when it cannot be recorded: then there is no such deploy */
  constructor(options: DeployOptions, fact: DeployFact, source: DeploySource) {
    this.#options = options;
    this.#fact = fact;
    this.#source = source;
    this.#events.setMaxListeners(0);
    this.#log = new DeployLog({
      onLine: (line, level) => {
        options.say(fact.app_id, fact.id, level, line);
        this.#events.emit('line', line);
        this.#untold.add(line);
        this.#recordSoon(PROGRESS_MS);
      },
      onSteps: (steps) => {
        this.#change({ steps });
        this.#recordSoon(PROGRESS_MS);
      },
    });
    this.#deletedClasses = new DeletedClassData(options, fact, this.#log);
    options.store.transaction(() => this.#save());
    options.onFacts();
  }

  /** The deploy as recorded. */
  get fact(): Readonly<DeployFact> {
    return this.#fact;
  }

  /** The earlier deploy whose release is started again; `null` for any other. */
  get releaseOf(): string | null {
    return this.#source.kind === 'release' ? this.#source.of : null;
  }

  /** Whether it builds something, which may take its time. */
  get builds(): boolean {
    return this.#source.kind === 'commit';
  }

  /** The app whose repository and secrets it uses: of a preview the app that it is one of. */
  get #origin(): string {
    return this.#options.apps.originOf(this.#fact.app_id);
  }

  get #isPreview(): boolean {
    return this.#origin !== this.#fact.app_id;
  }

  get #ended(): boolean {
    return this.#fact.finished_at !== null;
  }

  /** Adds its commit's message and author to the row. Never rejects: a deploy goes on without them. */
  async describe(): Promise<void> {
    try {
      const repository = this.#options.paths.repository(this.#origin);
      this.#tell(await describeCommit(repository, this.#fact.sha));
    } catch (error) {
      log('warn', 'a commit could not be described', { deploy: this.#fact.id, error: reason(error) });
    }
  }

  /** Says in its log why it does not begin yet. */
  waits(reason: string): void {
    this.#log.line(`▸ queued: ${reason}`, 'info');
  }

  /** Ends it before its turn came: a newer push makes it pointless. */
  supersede(by: string): void {
    this.#log.line(`superseded by deploy ${by}`, 'info');
    this.#end('superseded', null);
  }

  /** Whether it can still be ended without a release that serves. */
  get mayBeCancelled(): boolean {
    return !this.#ended && this.#fact.status !== 'live' && !this.#abort.signal.aborted;
  }

  /**
   * Ends it, whether it waits or builds. A release that already serves stays live.
   * @param as the status that it ends with
   */
  cancel(why: string, as: 'failed' | 'cancelled' = 'failed'): void {
    this.#cut = as;
    this.#abort.abort(new Error(why));
    if (this.#fact.status !== 'queued') return;
    this.#log.line(as === 'failed' ? `deploy failed: ${why}` : `deploy ${why}`, 'error');
    this.#end(as, why);
  }

  /** Resolves when it has ended, or `signal` aborts. */
  async untilEnded(signal: AbortSignal): Promise<void> {
    if (!this.#ended) await once(this.#events, 'end', { signal }).catch(() => {});
  }

  /** Builds and releases. Resolves when the row says how it ended; a failure of the project is no rejection. */
  async run(): Promise<void> {
    const { paths, apps, users, walls, secrets } = this.#options;
    const { id, app_id } = this.#fact;
    this.#tell({ status: 'building', started_at: new Date().toISOString() });
    try {
      await this.#waitForWake();
      const values = secrets.values(this.#origin);
      this.#log.hide([...Object.values(apps.get(app_id)?.wanted.env ?? {}), ...Object.values(values)]);
      await walls.cover(users(app_id));
      if (this.#isPreview)
        await this.#options.copyIntoPreview(app_id, (line) => this.#log.line(line), this.#abort.signal);
      const storage = await this.#makeRelease();
      await checkSecrets(paths.release(app_id, id), Object.keys(values), this.#log);
      const owned = { appId: app_id, apps, isPushed: this.#source.kind === 'commit' };
      const consumes = await checkServices(paths.release(app_id, id), owned, this.#log);
      this.#abort.signal.throwIfAborted();
      const before = apps.get(app_id)?.liveDeployId ?? null;
      const detail = before === null ? 'the first release' : `in the place of deploy ${before}`;
      await this.#log.step('start', detail, () => this.#release(storage, consumes));
      await this.#deletedClasses.find(storage);
      await this.#tidied;
      this.#end('live', null);
    } catch (error) {
      const message = reason(this.#abort.signal.aborted ? this.#abort.signal.reason : error);
      const cut = this.#abort.signal.aborted ? this.#cut : 'failed';
      this.#log.line(cut === 'failed' ? `deploy failed: ${message}` : `deploy ${message}`, 'error');
      const serving = apps.get(app_id)?.liveDeployId;
      if (serving && serving !== id) this.#log.line(`deploy ${serving} stays live`, 'info');
      if (this.#fact.status !== 'live') await remove(paths.release(app_id, id));
      this.#end(this.#fact.status === 'live' ? 'live' : cut, message);
    } finally {
      await this.#tidied;
    }
  }

  /** A newer deploy waits: what would keep it waiting after this one's end is left to it. */
  makeWay(): void {
    this.#succeeded.abort(new Error('a newer deploy waits'));
  }

  /** Snapshots the data of classes that the project has deleted, and moves it to the trash. Never rejects. */
  async throwClassesAway(): Promise<void> {
    if (this.#deletedClasses.isEmpty) return;
    await this.#deletedClasses.throwAway(AbortSignal.any([this.#abort.signal, this.#succeeded.signal]));
    this.#record();
  }

  /** Removes what the build left. Never rejects. */
  tidy(): Promise<void> {
    return remove(this.#options.paths.build(this.#fact.app_id));
  }

  /** Writes its log to `output`, from the first line to the last as fast as it is read, then `last()`, and ends it. */
  follow(output: Writable, last: (deploy: DeployFact) => Promise<string>): void {
    const write = lineWriter(output);
    output.on('error', () => this.#events.off('line', write));
    const end = () => {
      this.#events.off('line', write);
      last(this.#fact).then(
        (text) => output.end(text),
        () => output.end(),
      );
    };
    if (this.#log.text !== '') output.write(this.#log.text);
    if (this.#ended) end();
    else this.#events.on('line', write).once('end', end);
  }

  /** The control plane wakes an app of which it is told that a deploy is queued. Without it the app sleeps on. */
  async #waitForWake(): Promise<void> {
    const { app_id } = this.#fact;
    const woken = await this.#options.apps.untilAwake(app_id, WAKE_DEADLINE_MS, this.#abort.signal);
    if (!woken) this.#log.line('the app could not be woken; the deploy goes on', 'warn');
  }

  /** @returns the storage names to keep once the release is live */
  async #makeRelease(): Promise<object> {
    const source = this.#source;
    if (source.kind === 'commit') return this.#build();
    if (source.kind === 'release') return this.#reuse(source.of);
    const { store, paths, apps } = this.#options;
    const { id, app_id } = this.#fact;
    const live = apps.get(app_id)?.liveDeployId ?? null;
    if (source.kind === 'triggers') {
      if (live === null) throw new Error('nothing is deployed yet');
      return this.#reuse(live, source.triggers);
    }
    const directory = paths.release(app_id, id);
    mkdirSync(dirname(directory), { recursive: true, mode: 0o700 });
    const storage = { ...emptyNames(), ...store.apps.storageNames(app_id) };
    const isPromoted = source.kind === 'preview';
    if (!isPromoted) for (const note of source.notes) this.#log.line(note);
    const what = isPromoted ? `that of the preview ${source.name}` : 'what was uploaded';
    return this.#log.step('release', `${what}; nothing is built`, () =>
      placeUpload(source.directory, directory, {
        deployId: id,
        sha: this.#fact.sha,
        storage,
        live: live && paths.release(app_id, live),
        isCopied: isPromoted || this.#isPreview,
        isPreview: this.#isPreview,
      }),
    );
  }

  async #build(): Promise<StorageNames> {
    const { store, paths, apps, limits, users, walls } = this.#options;
    const { id, app_id, sha } = this.#fact;
    const app = apps.get(app_id);
    if (!app) throw new Error('the app was deleted');
    // The same for each build of the app, which has one at a time: what is kept for the next one may name paths.
    const scratch = paths.build(app_id);
    await remove(scratch);
    mkdirSync(scratch, { recursive: true, mode: 0o700 });
    requireDisk(scratch, limits.worktreeMb, limits.floorMb);
    mkdirSync(dirname(paths.release(app_id, id)), { recursive: true, mode: 0o700 });
    const user = users(app_id).build;
    const building = build({
      deployId: id,
      appId: app_id,
      sha,
      repository: paths.repository(this.#origin),
      isPreview: this.#isPreview,
      scratch,
      releaseDirectory: paths.release(app_id, id),
      cacheDirectory: paths.cache(app_id),
      env: app.wanted.env,
      settings: app.wanted.builds ?? NO_SETTINGS,
      user,
      storage: { ...emptyNames(), ...store.apps.storageNames(app_id) },
      requireOutside: (named) => requireServices(named, { appId: app_id, apps, isPushed: true }),
      liveReleaseDirectory: app.liveDeployId === null ? null : paths.release(app_id, app.liveDeployId),
      walls,
      limits,
      log: this.#log,
      signal: this.#abort.signal,
    });
    const { storage, tidied } = await building.finally(() => user && removeLitter(user));
    this.#tidied = tidied;
    return storage;
  }

  /** Takes the release of an earlier deploy. Its storage has the names that it has now. */
  async #reuse(earlier: string, triggers?: Retriggered): Promise<object> {
    const { store, paths } = this.#options;
    const { id, app_id } = this.#fact;
    await this.#log.step('release', `the one of deploy ${earlier}, without a build`, () =>
      reuseRelease(paths.release(app_id, earlier), paths.release(app_id, id), id, triggers),
    );
    return store.apps.storageNames(app_id);
  }

  async #release(storage: object, consumes: string[]): Promise<void> {
    const { store, apps } = this.#options;
    const { id, app_id } = this.#fact;
    await apps.makeLive(app_id, id, {
      log: (line) => this.#log.line(line),
      consumes,
      signal: this.#abort.signal,
      commit: (at: string, app: ObservedApp) => {
        const before = this.#fact;
        this.#fact = { ...before, status: 'live', can_roll_back: true };
        try {
          store.transaction(() => {
            this.#replace();
            store.apps.setLive(app_id, id, at, storage, consumes);
            store.outbox.add({ type: 'app', app });
            this.#save();
          });
        } catch (error) {
          this.#fact = before;
          throw error;
        }
      },
    });
  }

  /** The deploy that served until now does not any more. In the transaction that moves the pointer. */
  #replace(): void {
    const { store, apps } = this.#options;
    const { app_id } = this.#fact;
    const serving = apps.get(app_id)?.liveDeployId;
    const fact = serving && store.deploys.find(app_id, serving);
    if (!fact) return;
    const deploy: DeployFact = { ...fact, status: 'replaced' };
    store.deploys.save(deploy);
    store.outbox.add({ type: 'deploy', deploy });
  }

  #end(status: DeployFact['status'], error: string | null): void {
    this.#tell({
      status,
      error: error && cutText(this.#log.shown(error), ERROR_LENGTH, ' …'),
      steps: this.#log.steps,
      finished_at: new Date().toISOString(),
    });
    this.#events.emit('end');
    log(status === 'failed' ? 'warn' : 'info', 'deploy ended', {
      deploy: this.#fact.id,
      app: this.#fact.app_id,
      status,
      error: error ?? undefined,
    });
  }

  #change(change: Partial<DeployFact>): void {
    this.#fact = { ...this.#fact, ...change };
    this.#changed = true;
  }

  /** Changes the deploy, records that and tells the control plane at once. */
  #tell(change: Partial<DeployFact>): void {
    this.#change(change);
    this.#record();
  }

  #recordSoon(delayMs: number): void {
    this.#recording ??= setTimeout(() => this.#record(), delayMs).unref();
  }

  /** Writes what has changed, and tells it. What cannot be written now is written later. */
  #record(): void {
    if (this.#recording) clearTimeout(this.#recording);
    this.#recording = null;
    const { store, onFacts } = this.#options;
    try {
      store.transaction(() => (this.#changed ? this.#save() : this.#saveLog()));
      this.#changed = false;
      onFacts();
    } catch (error) {
      logRarely('error', 'a deploy could not be recorded; it is tried again', {
        deploy: this.#fact.id,
        error: reason(error),
      });
      this.#recordSoon(RETRY_MS);
    }
  }

  /** Writes the deploy with its log, in the transaction around this call. */
  #save(): void {
    const { deploys, outbox } = this.#options.store;
    // Before the fact: whoever learns of the end has had every line.
    this.#tellLines();
    deploys.save(this.#fact, this.releaseOf);
    deploys.saveLog(this.#fact.id, this.#log.text);
    outbox.add({ type: 'deploy', deploy: this.#fact });
  }

  /** Writes the log alone, in the transaction around this call. */
  #saveLog(): void {
    const { deploys, outbox } = this.#options.store;
    deploys.saveLog(this.#fact.id, this.#log.text);
    if (!outbox.hasMoreThan(FACTS_WAITING)) this.#tellLines();
  }

  #tellLines(): void {
    const lines = this.#untold.take();
    const { id, app_id } = this.#fact;
    if (lines.length > 0)
      this.#options.store.outbox.add({ type: 'lines', lines: { app_id, deploy_id: id, lines } });
  }
}

/** Never rejects: the deploy's row must say how it ended. */
async function remove(path: string): Promise<void> {
  await removeTree(path).catch((error: unknown) =>
    log('warn', 'what a deploy left could not be removed', { path, error: reason(error) }),
  );
}
