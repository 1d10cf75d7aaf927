// Lets an empty machine continue the Cellar of a lost machine from its bucket, or join the hosts of a Cellar.
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { syncFile } from '../../../bundler/sync.ts';
import type { AppRecord, DeletedApp } from '../../../sqlite/host/app-records.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import type { Config } from '../../config.ts';
import { claim, type Layout } from '../../disk/data-directory.ts';
import { log, reason } from '../../log.ts';
import { each, readIfThere } from '../app-folder.ts';
import { clusterKeyOf } from '../cluster-key.ts';
import {
  type FoundOwner,
  proofOf,
  provesCellar,
  readOwner,
  requireSameKind,
  takeBucket,
  takeUnused,
} from '../owner.ts';
import { bucketPlace, type S3Place } from '../place.ts';
import { probe } from '../probe.ts';
import { smallObjects } from '../s3-store.ts';
import { RECORDS } from './app-records.ts';
import { damagedRecord, readRecord } from './record-content.ts';
import { beginSecrets, fetchSecrets } from './secrets.ts';

/**
 * Fills an empty data directory with the Cellar of the bucket, if the bucket has one. A machine that continues a lost
 * machine's Cellar takes all apps in the bucket. A host that joins others takes none: the control plane decides later which
 * host runs which app. With `RUNNER_ADDRESS`, an unused bucket gets a new Cellar.
 * The control plane's data, and data, releases and repositories of apps, are read from the bucket at their first use.
 * @throws {Error} when the bucket does not answer, or this machine cannot continue or join its Cellar
 */
export async function continueFromBucket(config: Config, paths: Layout): Promise<void> {
  const place = bucketPlace(config);
  if (place === null || existsSync(paths.database)) return;
  const owner = await readOwner(place).catch((error: unknown) => {
    throw new Error(
      `RUNNER_BUCKET: the first start needs the bucket, which may have the Cellar of a lost machine: ${reason(error)}`,
    );
  });
  const several = config.RUNNER_ADDRESS !== null;
  if (owner === null && !several) return;
  const clusterKey = clusterKeyOf(config, paths);
  if (owner !== null) requireContinuable(owner, clusterKey, several);
  const release = claim(paths);
  let isBegun = true;
  try {
    const beside = `${paths.database}.new`;
    rmSync(beside, { force: true });
    mkdirSync(dirname(beside), { recursive: true, mode: 0o700 });
    if (owner === null) isBegun = await begin(place, paths, clusterKey, beside);
    else if (owner.several) await join(place, paths, clusterKey, { cellar: owner.cellar, beside });
    else await takeOver(place, paths, clusterKey, { owner, beside, several });
    if (isBegun) {
      renameSync(beside, paths.database);
      await syncFile(dirname(paths.database));
    }
  } finally {
    release();
  }
  // Another host has begun the Cellar first: this host joins it.
  if (!isBegun) await continueFromBucket(config, paths);
}

/** @throws {Error} when an empty machine with these settings cannot continue or join the Cellar of a bucket */
function requireContinuable(owner: FoundOwner, clusterKey: string, several: boolean): void {
  if (owner.proof === undefined)
    throw new Error(
      'RUNNER_BUCKET: the bucket has the data of an older version of Cellar, which an empty machine cannot continue. Restore a snapshot (npm run restore -- latest), or start the old machine once with this version',
    );
  if (!provesCellar(owner, clusterKey))
    throw new Error(
      `RUNNER_BUCKET: it has the data of another Cellar (${owner.cellar}). To continue that one on this machine, set its RUNNER_CLUSTER_KEY; to begin a new one, set another prefix`,
    );
  requireSameKind(owner, several);
}

/** Begins a Cellar of several hosts, which may all start at this moment. @returns false when another host has begun it */
async function begin(place: S3Place, paths: Layout, clusterKey: string, beside: string): Promise<boolean> {
  await probe(place);
  await beginSecrets(place, paths, clusterKey);
  const store = openHostStore(beside);
  try {
    const [cellar, machine] = [store.snapshots.cellar(), store.snapshots.machine()];
    await store.synced();
    return await takeUnused(place, { cellar, machine, several: true, proof: proofOf(clusterKey, cellar) });
  } finally {
    store.close();
  }
}

/** Joins the hosts of a Cellar. @throws {Error} when no host has stored the Cellar's secrets in the bucket */
async function join(
  place: S3Place,
  paths: Layout,
  clusterKey: string,
  { cellar, beside }: { cellar: string; beside: string },
): Promise<void> {
  if (!(await fetchSecrets(place, paths, clusterKey, true)))
    throw new Error(
      'RUNNER_BUCKET: it has no secrets.json, without which no host can join; start the first host, which writes it',
    );
  const store = openHostStore(beside);
  try {
    store.transaction(() => store.records.join(cellar));
    await store.synced();
  } finally {
    store.close();
  }
  log('info', 'this host joins the Cellar of the bucket', { cellar });
}

async function takeOver(
  place: S3Place,
  paths: Layout,
  clusterKey: string,
  { owner, beside, several }: { owner: FoundOwner; beside: string; several: boolean },
): Promise<void> {
  log('info', 'this machine continues the Cellar of the bucket', { cellar: owner.cellar });
  await fetchSecrets(place, paths, clusterKey);
  const { apps, machine } = await takeRecords(place, owner.cellar, beside);
  const { cellar } = owner;
  await takeBucket(place, owner, { cellar, machine, several, proof: proofOf(clusterKey, cellar) });
  log('info', 'the apps in the bucket are read', { apps: apps.length });
}

/**
 * Replaces a database's rows about apps in the bucket by the apps' records in the bucket, which are newer.
 * @param path of the database of a host that does not run; created if missing
 * @returns the ids of the apps that have a record, and the id of the machine in the database
 */
export async function takeRecords(
  place: S3Place,
  cellar: string,
  path: string,
): Promise<{ apps: string[]; machine: string }> {
  const records = await readRecords(place);
  const store = openHostStore(path);
  try {
    store.transaction(() => store.records.take(cellar, records));
    const machine = store.snapshots.machine();
    await store.synced();
    const apps = records.flatMap((record) => ('deletedApp' in record ? [] : record.wanted.id));
    return { apps, machine };
  } finally {
    store.close();
  }
}

/** Returns all records in the bucket. @throws {Error} naming one that is damaged, or that a newer Cellar wrote */
export async function readRecords(place: S3Place): Promise<(AppRecord | DeletedApp)[]> {
  const store = smallObjects(place);
  const records: (AppRecord | DeletedApp)[] = [];
  await each(await store.list(RECORDS), async ({ name }) => {
    const bytes = await readIfThere(store, name);
    // Another host has removed it since it was listed.
    if (bytes === null) return;
    try {
      records.push(readRecord(bytes, basename(name, '.json')));
    } catch (error) {
      throw damagedRecord(place.prefix + name, error);
    }
  });
  return records;
}
