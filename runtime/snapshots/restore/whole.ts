// Restores a whole Cellar from a snapshot into an empty data directory. No host runs there.
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { forgetHosts, prepareCopy } from '../../../sqlite/host/snapshots.ts';
import { contentOf, openFolder, openObjectsFolder } from '../../bucket/app-folder.ts';
import {
  claimBucket,
  type FoundOwner,
  proofOf,
  readOwner,
  requireKey,
  takeBucket,
} from '../../bucket/owner.ts';
import type { S3Place } from '../../bucket/place.ts';
import { takeRecords } from '../../bucket/records/continue.ts';
import { fetchSecrets } from '../../bucket/records/secrets.ts';
import { DATABASES } from '../../control/config.ts';
import { claim, type Layout } from '../../disk/data-directory.ts';
import { createRepository } from '../../git/repository.ts';
import { reason } from '../../log.ts';
import { Damaged, NotThere, Unusable } from '../errors.ts';
import { type Head, listSnapshots, type Part, readManifest } from '../store/manifest.ts';
import { packName } from '../store/packs.ts';
import type { SnapshotStore } from '../store/snapshot-store.ts';
import { nameOf, packsOf } from '../verify.ts';
import { restoreCode } from './code.ts';
import { extract } from './extract.ts';
import { finishMoves, moveAll } from './moves.ts';

/** Folder of a snapshot with the data of apps in the bucket. */
const IMPORTING = 'importing/';
/** Folder of a snapshot with the code of apps in the bucket. */
const CODE = 'code/';

/** An app that a snapshot would restore. `bytes`: the size of all its files. */
export interface AppInSnapshot {
  slug: string;
  bytes: number;
  /** Whether packs that it needs are missing in the store. */
  isDamaged: boolean;
}

/**
 * Returns what `restoreWhole` would restore, and writes nothing. It does not read the data of apps.
 * @param without as in `restoreWhole`
 * @throws as `restoreWhole` does when the snapshot cannot be read
 */
export async function describeWhole(
  store: SnapshotStore,
  id: string,
  without: string[],
): Promise<{ head: Head; apps: AppInSnapshot[]; damaged: string[] }> {
  const { head, parts: all } = await readManifest(store, await keyOf(store, id));
  const leftOut = partsCalled(without, all, head.id);
  const parts = all.filter((part) => !leftOut.includes(part));
  const there = new Set((await store.list(packName(''))).map(({ name }) => name));
  const isDamaged = (part: Part) => [...packsOf(part)].some((pack) => !there.has(packName(pack)));
  const apps = parts
    .filter(({ kind }) => kind === 'app')
    .map((part) => ({
      slug: part.slug,
      bytes: part.files.reduce((sum, { size }) => sum + size, 0),
      isDamaged: isDamaged(part),
    }));
  return { head, apps, damaged: parts.filter(isDamaged).map(nameOf) };
}

/** @param id a key, or `latest` */
async function keyOf(store: SnapshotStore, id: string): Promise<string> {
  return id === 'latest' ? ((await listSnapshots(store)).at(-1) ?? id) : id;
}

/**
 * Restores everything in a snapshot.
 * @param id of a snapshot, or `latest`
 * @param without apps to leave out, by id or slug: they exist afterwards, without code and data. An app with a record in the
 *   bucket continues from there, and is not reported as left out
 * @param bucket where apps in the bucket have their data, and its cluster key; null without a bucket. Data that the bucket
 *   has stays as it is: it is newer than the snapshot's
 * @throws {Unusable}, {NotThere}; then the directory is unchanged
 * @throws {Error} when the directory is not empty
 */
export async function restoreWhole(
  store: SnapshotStore,
  id: string,
  paths: Layout,
  without: string[],
  bucket: { place: S3Place; clusterKey: string } | null,
): Promise<{ head: Head; leftOut: string[] }> {
  const release = claim(paths);
  try {
    finishMoves(paths.restoring);
    assertEmpty(paths);
    const { head, parts } = await readManifest(store, await keyOf(store, id));
    let leftOut = partsCalled(without, parts, head.id);
    const owner = bucket && (await requireOwner(head.of, bucket));
    const kept = await appsInBucket(parts, bucket?.place ?? null);
    let machine = '';
    const work = join(paths.restoring, 'whole');
    const files = join(work, 'files');
    try {
      const wanted = parts.filter((part) => !leftOut.includes(part));
      const extracted = wanted.map((part) => ({
        ...part,
        files: part.files.filter(({ path }) => !(kept.includes(part.id) && path.startsWith(IMPORTING))),
      }));
      await extractParts(store, head.id, extracted, files);
      try {
        prepareCopy(
          join(files, basename(paths.database)),
          leftOut.map((part) => part.id),
        );
        const { file } = DATABASES.find(({ name }) => name === 'control')!;
        forgetHosts(join(files, basename(paths.control), file));
      } catch (error) {
        throw new Unusable(reason(error));
      }
      const database = join(files, basename(paths.database));
      if (bucket !== null) {
        const continued = await takeRecords(bucket.place, head.of, database);
        machine = continued.machine;
        // These apps have moved into the bucket since the snapshot, or their data there is newer.
        for (const app of continued.apps)
          for (const folder of ['data', 'buckets'])
            rmSync(join(files, folder, app), { recursive: true, force: true });
        leftOut = leftOut.filter((part) => !continued.apps.includes(part.id));
        await putCode(bucket.place, join(files, CODE));
      }
      for (const name of ['repos', 'data', 'releases']) mkdirSync(join(files, name), { recursive: true });
      // Gives the apps that are left out empty repositories, so that their owners can push.
      for (const part of leftOut) await createRepository(join(files, 'repos', `${part.id}.git`));
    } catch (error) {
      rmSync(paths.restoring, { recursive: true, force: true });
      throw error;
    }
    // The bucket is claimed only now: after a failure before, the next restore must find it unused.
    if (bucket !== null) {
      const own = { cellar: head.of, machine, proof: proofOf(bucket.clusterKey, head.of) };
      if (owner === null) await claimBucket(bucket.place, own, false);
      else if (!owner.several) await takeBucket(bucket.place, owner, own);
      await fetchSecrets(bucket.place, paths, bucket.clusterKey);
    }
    const names = readdirSync(files);
    moveAll(
      work,
      names.map((name) => ({ from: join(files, name), to: join(paths.root, name), aside: null })),
    );
    rmSync(paths.restoring, { recursive: true, force: true });
    return { head, leftOut: leftOut.map(({ slug }) => slug) };
  } finally {
    release();
    rmSync(paths.lock, { force: true });
  }
}

/**
 * Returns the owner of the bucket; null for an unused one.
 * @throws {Unusable} when it is of another Cellar, has another cluster key, or does not answer
 */
async function requireOwner(
  cellar: string,
  { place, clusterKey }: { place: S3Place; clusterKey: string },
): Promise<FoundOwner | null> {
  try {
    const owner = await readOwner(place);
    if (owner === null) return null;
    if (owner.cellar !== cellar)
      throw new Error(
        `the bucket is of another Cellar (${owner.cellar}): set another prefix in RUNNER_BUCKET`,
      );
    requireKey(owner, proofOf(clusterKey, cellar), place);
    return owner;
  } catch (error) {
    throw new Unusable(reason(error));
  }
}

/**
 * Returns the apps of a snapshot whose data in the bucket is still there.
 * @throws {Unusable} when the bucket does not answer, or is needed and not set
 */
async function appsInBucket(parts: Part[], bucket: S3Place | null): Promise<string[]> {
  const own = parts.filter(({ files }) => files.some(({ path }) => path.startsWith(IMPORTING)));
  const hasCode = parts.some(({ files }) => files.some(({ path }) => path.startsWith(CODE)));
  if (own.length === 0 && !hasCode) return [];
  if (bucket === null)
    throw new Unusable('the snapshot has apps that keep their data in a bucket: set RUNNER_BUCKET');
  const found: string[] = [];
  try {
    for (const { id } of own) {
      const folder = { place: bucket, appId: id };
      const hasData = (await contentOf(openFolder(folder))).length > 0;
      if (hasData || (await openObjectsFolder(folder).list('')).length > 0) found.push(id);
    }
  } catch (error) {
    throw new Unusable(reason(error));
  }
  return found;
}

/** Moves code into the bucket. @throws {Unusable} when the bucket does not take it */
async function putCode(bucket: S3Place, directory: string): Promise<void> {
  try {
    await restoreCode(bucket, directory);
  } catch (error) {
    throw new Unusable(`the bucket did not take the code of apps: ${reason(error)}`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Finds apps of a snapshot by id or slug. @throws {NotThere} when it has no such app */
function partsCalled(names: string[], parts: Part[], id: string): Part[] {
  return names.map((name) => {
    const found = parts.find((part) => part.kind === 'app' && (part.id === name || part.slug === name));
    if (found === undefined) throw new NotThere(`snapshot ${id} has no app ${name}`);
    return found;
  });
}

/** Extracts all parts. @throws {Damaged} naming every damaged part, and how to leave apps out */
async function extractParts(store: SnapshotStore, id: string, parts: Part[], files: string): Promise<void> {
  const damaged: { part: Part; why: string }[] = [];
  for (const part of parts) {
    try {
      await extract(store, part.files, files);
    } catch (error) {
      if (!(error instanceof Damaged)) throw error;
      damaged.push({ part, why: error.message });
    }
  }
  if (damaged.length === 0) return;
  const named = damaged.map(({ part, why }) => `${nameOf(part)} (${why})`).join(', ');
  const options = damaged.map(({ part }) => `--without ${part.slug}`).join(' ');
  const canLeave = damaged.every(({ part }) => part.kind === 'app');
  throw new Damaged(
    `snapshot ${id} cannot restore ${named}. Restore another snapshot${canLeave ? `, or leave out the damaged apps: npm run restore -- ${id} ${options}` : ''}`,
  );
}

/** Allows only files that no snapshot contains. @throws {Error} when there are others */
function assertEmpty(paths: Layout): void {
  const may = [
    paths.lock,
    paths.pid,
    paths.address,
    paths.snapshots,
    // Node's compile cache. A start creates it before it reads its settings, so a failed start leaves it behind.
    paths.compiled,
    paths.secretsKey,
    paths.signInKey,
    paths.alertKey,
    paths.token,
    paths.apiKey,
    paths.hostSecret,
    paths.clusterKey,
  ];
  const names = readdirSync(paths.root).filter((name) => !may.includes(join(paths.root, name)));
  if (names.length > 0)
    throw new Error(
      `${paths.root} is not empty (it has ${names.slice(0, 5).join(', ')}): a whole Cellar is restored into an empty directory only`,
    );
}

/** Returns the missing files that no snapshot has, and that the operator must provide. */
export function missingAfter(paths: Layout): string[] {
  return existsSync(paths.secretsKey) ? [] : [paths.secretsKey];
}
