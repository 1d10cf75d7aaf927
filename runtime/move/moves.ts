// Moves apps between this machine and the bucket.
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { MovePlan } from '../../handlers/contract/apps/move.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { App } from '../apps/app.ts';
import type { Apps } from '../apps/apps.ts';
import type { BucketPlace, Place } from '../apps/known/open-apps.ts';
import { objectsFolderOf } from '../bucket/app-folder.ts';
import type { Bucket } from '../bucket/bucket.ts';
import type { S3Place } from '../bucket/place.ts';
import type { Layout } from '../disk/data-directory.ts';
import { freeMegabytes } from '../disk/disk.ts';
import { removeTree } from '../disk/remove.ts';
import type { AppUsers } from '../isolation/users.ts';
import { log, reason } from '../log.ts';
import { FairQueue, QueueFull } from '../queues/fair-queue.ts';
import { noSuchApp, Refusal } from '../refusal.ts';
import type { Snapshots } from '../snapshots/snapshots.ts';
import type { StorageNames } from '../storage/names.ts';
import type { Buckets } from '../storage/r2/buckets.ts';
import { BucketClient } from '../storage/r2/client.ts';
import { recordName } from '../storage/r2/remote/records.ts';
import { Immovable } from './copied-objects.ts';
import { copyToBucket } from './copy-to-bucket.ts';
import { copyToDisk } from './copy-to-disk.ts';
import type { Counted, Counts, countInBucket, countOnDisk } from './count.ts';
import { moveThreads } from './move-threads.ts';
import { useMovedData } from './moved-data.ts';

const COUNT = new URL('./count.ts', import.meta.url);
const COUNT_MS = 5 * 60_000;
/** How long files of an interrupted move stay in the bucket, in ms. */
const LEFT_MS = 24 * 3_600_000;
/** Timeout of a move, including its wait for other moves, in ms. */
const MOVE_MS = 5 * 3_600_000;
/** One at a time: each move needs disk space, and the speed of the bucket limits all of them. */
const LIMITS = { name: 'moves', running: 1, runningPerOwner: 1, waitingPerOwner: 16 };
const PAGE = 1_000;
/** Longest name of an object in the bucket, in bytes. */
const MAX_NAME_BYTES = 1_024;
const BYTES_IN_MB = 2 ** 20;
/** The disk needs this many times the data's size, without R2 objects: a copy is packed, extracted and compressed. */
const SIZES = 3;

export interface MovesOptions {
  store: HostStore;
  paths: Layout;
  apps: Apps;
  snapshots: Snapshots;
  users: (appId: string) => AppUsers;
  buckets: Buckets;
  /** Null without a bucket. */
  bucket: Bucket | null;
  place: S3Place | null;
  workerd: string;
  memoryMb: number;
  /** Disk space that must stay free, in MiB. */
  floorMb: number;
}

export class Moves {
  readonly #options: MovesOptions;
  readonly #turns = new FairQueue(LIMITS);
  readonly #ending = new AbortController();

  constructor(options: MovesOptions) {
    this.#options = options;
  }

  /**
   * Counts what a move would move.
   * @throws {Refusal} for an unknown app, without a bucket, and when the app has data that cannot be moved, or the disk has
   *   no room for the move
   */
  async plan(id: string, to: Place): Promise<MovePlan> {
    return (await this.#plan(id, to)).plan;
  }

  /** As `plan`, and also returns the bytes of each app's R2 objects. */
  async #plan(id: string, to: Place): Promise<{ plan: MovePlan; objectBytes: Map<string, number> }> {
    const { apps, paths, floorMb } = this.#options;
    const app = apps.get(id);
    if (app === undefined) throw noSuchApp();
    if (this.#options.bucket === null)
      throw new Refusal(400, 'invalid_input', 'this Cellar has no bucket; set RUNNER_BUCKET on the host');
    const from = app.wanted.storage ?? 'local';
    const previews = apps.previews(id).map((preview) => preview.id);
    const counts: Counts = { databases: 0, namespaces: 0, objects: 0, r2_objects: 0, bytes: 0 };
    const objectBytes = new Map<string, number>();
    let needed = 0;
    for (const each of [id, ...previews]) {
      const counted = await this.#count(each, from);
      if (from !== to && counted.obstacle !== null)
        throw new Refusal(409, 'app_immovable', `The app cannot be moved: ${counted.obstacle}`);
      for (const name of Object.keys(counts) as (keyof Counts)[]) counts[name] += counted[name];
      objectBytes.set(each, counted.r2_bytes);
      // R2 objects that move into the bucket are read where they are, so they need no disk space.
      needed += SIZES * (counted.bytes - counted.r2_bytes) + (to === 'local' ? counted.r2_bytes : 0);
    }
    const neededMb = Math.ceil(needed / BYTES_IN_MB);
    const missingMb = neededMb - Math.max(0, freeMegabytes(paths.root) - floorMb);
    if (from !== to && missingMb > 0)
      throw new Refusal(
        507,
        'insufficient_storage',
        `a move of the app needs ${neededMb} MiB of free disk space, and ${missingMb} MiB of that are missing`,
      );
    return { plan: { from, to, previews: previews.length, ...counts }, objectBytes };
  }

  /**
   * Moves an app with its previews, after other moves. Does nothing when the app keeps its data in `to` already.
   * @throws {Refusal} as `plan` does, while the app is deployed, when a copy fails, and when the host stops; {Error} after
   *   `MOVE_MS`. Then the app stays where it was
   */
  async move(id: string, to: Place): Promise<MovePlan> {
    const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(MOVE_MS)]);
    const owner = this.#options.apps.ownerOf(id);
    try {
      return await this.#turns.run({ owner, signal }, () => this.#move(id, to, signal));
    } catch (error) {
      if (error instanceof QueueFull) throw new Refusal(409, 'transition_conflict', error.message);
      throw error;
    }
  }

  /** Ends the running move and the waiting ones. The app of the running move stays where it was, unless all is copied. */
  async stop(): Promise<void> {
    this.#ending.abort(new Refusal(503, 'host_unavailable', 'the host is stopping'));
    await this.#turns.run({ owner: '' }, () => {});
  }

  /** Moves an app at the move's turn. Plans only now, because earlier moves may have used the free disk space. */
  async #move(id: string, to: Place, signal: AbortSignal): Promise<MovePlan> {
    const { apps, buckets } = this.#options;
    const { plan, objectBytes } = await this.#plan(id, to);
    if (plan.from === to) return plan;
    const family = [id, ...apps.previews(id).map((preview) => preview.id)];
    const begun = performance.now();
    const isMoved = await apps.placeMoves.move(
      id,
      to,
      (app, place, gone) =>
        this.#copy(app, place, to, objectBytes.get(app.id) ?? 0, AbortSignal.any([signal, gone])),
      (app) => this.#begin(app, to),
    );
    if (!isMoved) return { ...plan, from: to };
    const seconds = ((performance.now() - begun) / 1000).toFixed(1);
    log('info', 'an app has moved', { app: apps.get(id)?.wanted.slug, to, seconds, bytes: plan.bytes });
    if (to === 'local') return plan;
    // The bucket service moves R2 objects when it opens them. Their next use retries a failed move.
    for (const each of family)
      if (buckets.has(each))
        await buckets.usage(each).catch((error: unknown) =>
          log(
            'warn',
            'R2 objects of a moved app could not be moved yet; Cellar moves them when they are used',
            {
              app: each,
              error: reason(error),
            },
          ),
        );
    return plan;
  }

  async #copy(
    app: App,
    place: BucketPlace,
    to: Place,
    objectBytes: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { paths, users } = this.#options;
    const work = join(paths.restoring, `${app.id}-move-${Date.now()}`);
    mkdirSync(work, { recursive: true, mode: 0o700 });
    const opening = {
      workerd: this.#options.workerd,
      memoryMb: this.#options.memoryMb,
      user: users(app.id).cell,
      runDirectory: paths.run(app.id),
    };
    try {
      const copying = { app, place, opening, objectBytes, work, signal };
      if (to === 'local') await copyToDisk({ ...this.#options, place: this.#options.place! }, copying);
      else {
        this.#removeLater(app.id);
        await copyToBucket(this.#options, copying);
      }
      signal.throwIfAborted();
    } catch (error) {
      if (error instanceof Immovable) throw new Refusal(409, 'app_immovable', error.message);
      log('warn', 'an app could not be copied', { app: app.wanted.slug, error: reason(error) });
      if (to === 'bucket') await place.cluster.remove().catch(() => {});
      throw new Refusal(502, 'move_failed', `The app stays where it was: ${reason(error)}`);
    } finally {
      await removeTree(work);
    }
  }

  /** Plans the removal of files that an interrupted move leaves in the bucket. */
  #removeLater(appId: string): void {
    const { folderRemovals } = this.#options.store;
    folderRemovals.delete(appId);
    folderRemovals.add(appId, new Date(Date.now() + LEFT_MS).toISOString());
  }

  /** Takes the copy into use: replaces the app's old data by the copy. */
  async #begin({ id }: App, to: Place): Promise<void> {
    const { paths, buckets } = this.#options;
    // Closes the R2 objects, so that their next use opens them in the new place. Twice, because a call of the API may open
    // them in between.
    await buckets.forget(id);
    await useMovedData(paths, id, to);
    await buckets.forget(id);
  }

  async #count(id: string, from: Place): Promise<Counted> {
    const { paths, buckets, place } = this.#options;
    const job = { deadlineMs: COUNT_MS, key: id };
    if (from === 'bucket') {
      const folder = { place: place!, appId: id };
      return moveThreads.run<typeof countInBucket>(COUNT, 'countInBucket', [folder], job);
    }
    const counted = await moveThreads.run<typeof countOnDisk>(COUNT, 'countOnDisk', [paths.data(id)], job);
    if (existsSync(paths.vectors(id))) {
      const { vectorIndexes = {} } = this.#options.store.apps.storageNames(id) as Partial<StorageNames>;
      const names = Object.keys(vectorIndexes).join(', ');
      counted.obstacle ??= `it has vector indexes, which the bucket cannot keep: ${names}`;
    }
    for (const { bucket, objects, bytes } of buckets.has(id) ? await buckets.usage(id) : []) {
      counted.r2_objects += objects;
      counted.bytes += bytes;
      counted.r2_bytes += bytes;
      if (objects > 0) counted.obstacle ??= await this.#longKey(id, bucket);
    }
    return counted;
  }

  /** Returns an obstacle when a key of an R2 object is too long for the bucket. */
  async #longKey(id: string, bucket: string): Promise<string | null> {
    const client = new BucketClient(await this.#options.buckets.open(id), bucket);
    const folder = this.#options.place!.prefix + objectsFolderOf(id);
    let cursor: string | undefined;
    do {
      const page = await client.list({ limit: PAGE, ...(cursor !== undefined && { cursor }) });
      const long = page.objects.find(
        ({ name }) => Buffer.byteLength(folder + recordName(bucket, name)) > MAX_NAME_BYTES,
      );
      if (long !== undefined)
        return `the key of an R2 object is too long for the bucket: ${long.name.slice(0, 100)}…`;
      cursor = page.cursor;
    } while (cursor !== undefined);
    return null;
  }
}
