// Sleeping copies of one app that keep their data in a bucket, without a deploy of each.
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { S3Place } from '../../runtime/bucket/place.ts';
import { S3Store } from '../../runtime/bucket/s3-store.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { Cellar } from '../../test/support/e2e/cellar.ts';
import { Copies } from './copies.ts';

/**
 * Adds an app `proto` and `count` copies of it to the data of a Cellar before its first start. That start moves them into the
 * bucket.
 * @param made.files of the app
 * @param made.hasFiles whether each copy has a repository and a release
 */
export async function copiesInBucket(
  cellar: Cellar,
  place: S3Place,
  made: { count: number; files: Record<string, string>; hasFiles: boolean },
): Promise<void> {
  await using local = await new Cellar().start();
  const id = await local.deploy('proto', 'hello', made.files);
  const deployId = (await local.app(id)).live_deploy_id;
  await local.stop();
  const copies = new Copies(local.data, id, deployId);
  copies.make(made.count, 'sleeping', { hasFiles: made.hasFiles });
  copies.toBucket();
  // workerd refuses files from before the bucket.
  rmSync(join(local.data, 'data'), { recursive: true, force: true });
  const host = openHostStore(layout(local.data).database);
  // Without this file, a Cellar with data in the bucket takes an unused bucket for the wrong one.
  const owner = { cellar: host.snapshots.cellar() };
  await new S3Store(place).write('cellar.json', Buffer.from(JSON.stringify(owner)));
  host.close();
  renameSync(local.data, cellar.data);
}
