// Lets an empty machine continue the Cellar of a bucket, whose machine was lost.
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFile } from '../../../bundler/sync.ts';
import type { AppRecord } from '../../../sqlite/host/app-records.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import type { Config } from '../../config.ts';
import { claim, type Layout } from '../../disk/data-directory.ts';
import { log, reason } from '../../log.ts';
import { each } from '../app-folder.ts';
import { clusterKeyOf } from '../cluster-key.ts';
import { provesCellar, readOwner } from '../owner.ts';
import { bucketPlace, type S3Place } from '../place.ts';
import { S3Store, SMALL_MS } from '../s3-store.ts';
import { RECORDS } from './app-records.ts';

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
  if (!provesCellar(owner, clusterKeyOf(config, paths)))
    throw new Error(
      `RUNNER_BUCKET: it has the data of another Cellar (${owner.cellar}). To continue that one on this machine, set its RUNNER_CLUSTER_KEY; to begin a new one, set another prefix`,
    );
  log('info', 'this machine continues the Cellar of the bucket', { cellar: owner.cellar });
  const release = claim(paths);
  try {
    const beside = `${paths.database}.new`;
    rmSync(beside, { force: true });
    mkdirSync(dirname(beside), { recursive: true, mode: 0o700 });
    const apps = await takeRecords(place, owner.cellar, beside);
    renameSync(beside, paths.database);
    await syncFile(dirname(paths.database));
    log('info', 'the apps of the bucket are known', { apps });
  } finally {
    release();
  }
}

/**
 * Replaces what a host's database has of apps in the bucket by their records there, which are newer.
 * @param path of the database; created if missing. No host uses it
 * @returns the number of records
 */
export async function takeRecords(place: S3Place, cellar: string, path: string): Promise<number> {
  const records = await readRecords(place);
  const store = openHostStore(path);
  try {
    store.transaction(() => store.records.take(cellar, records));
    await store.synced();
  } finally {
    store.close();
  }
  return records.length;
}

async function readRecords(place: S3Place): Promise<AppRecord[]> {
  const store = new S3Store(place, { deadlineMs: SMALL_MS });
  const records: AppRecord[] = [];
  await each(await store.list(RECORDS), async ({ name }) => {
    records.push(JSON.parse((await store.read(name)).toString('utf8')) as AppRecord);
  });
  return records;
}
