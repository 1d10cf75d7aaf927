// Lets an empty machine continue the Cellar of a bucket, whose machine was lost.
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFile } from '../../../bundler/sync.ts';
import type { AppRecord, DeletedApp } from '../../../sqlite/host/app-records.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import type { Config } from '../../config.ts';
import { claim, type Layout } from '../../disk/data-directory.ts';
import { log, reason } from '../../log.ts';
import { each } from '../app-folder.ts';
import { clusterKeyOf } from '../cluster-key.ts';
import { provesCellar, readOwner, takeBucket } from '../owner.ts';
import { bucketPlace, type S3Place } from '../place.ts';
import { smallObjects } from '../s3-store.ts';
import { RECORDS } from './app-records.ts';
import { fetchSecrets } from './secrets.ts';

/**
 * Fills an empty data directory with the apps of the bucket, if it has a Cellar. The control plane, data, releases and
 * repositories are read from the bucket when they are used.
 * @throws {Error} when the bucket does not answer, or belongs to a Cellar with another `RUNNER_CLUSTER_KEY`
 */
export async function continueFromBucket(config: Config, paths: Layout): Promise<void> {
  const place = bucketPlace(config);
  if (place === null || existsSync(paths.database)) return;
  const owner = await readOwner(place).catch((error: unknown) => {
    throw new Error(
      `RUNNER_BUCKET: the first start needs the bucket, which may have the Cellar of a lost machine: ${reason(error)}`,
    );
  });
  if (owner === null) return;
  if (owner.proof === undefined)
    throw new Error(
      'RUNNER_BUCKET: it has the data of an older Cellar, without what an empty machine needs. Restore a snapshot (npm run restore -- latest), or start the old machine once with this version',
    );
  const clusterKey = clusterKeyOf(config, paths);
  if (!provesCellar(owner, clusterKey))
    throw new Error(
      `RUNNER_BUCKET: it has the data of another Cellar (${owner.cellar}). To continue that one on this machine, set its RUNNER_CLUSTER_KEY; to begin a new one, set another prefix`,
    );
  log('info', 'this machine continues the Cellar of the bucket', { cellar: owner.cellar });
  const release = claim(paths);
  try {
    const beside = `${paths.database}.new`;
    rmSync(beside, { force: true });
    mkdirSync(dirname(beside), { recursive: true, mode: 0o700 });
    await fetchSecrets(place, paths, clusterKey);
    const { apps, machine } = await takeRecords(place, owner.cellar, beside);
    const { cellar, proof } = owner;
    await takeBucket(place, owner, { cellar, machine, proof });
    renameSync(beside, paths.database);
    await syncFile(dirname(paths.database));
    log('info', 'the apps of the bucket are known', { apps: apps.length });
  } finally {
    release();
  }
}

/**
 * Replaces what a host's database has of apps in the bucket by their records there, which are newer.
 * @param path of the database; created if missing. No host uses it
 * @returns the ids of the apps that have one, and the id of the new machine
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

/** @throws {Error} naming a record that a newer Cellar wrote */
async function readRecords(place: S3Place): Promise<(AppRecord | DeletedApp)[]> {
  const store = smallObjects(place);
  const records: (AppRecord | DeletedApp)[] = [];
  await each(await store.list(RECORDS), async ({ name }) => {
    const record = JSON.parse((await store.read(name)).toString('utf8')) as AppRecord | DeletedApp;
    if (record.format !== 1) throw new Error(`${name} in the bucket is of a newer Cellar; start that one`);
    records.push(record);
  });
  return records;
}
