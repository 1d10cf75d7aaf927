// Refusals of restores by the host.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import type { Call } from '../../runtime/control/host-call.ts';
import { type SnapshotRouteOptions, snapshotRoutes } from '../../runtime/control/routes/snapshot-routes.ts';
import { startSnapshots } from '../support/snapshots/host.ts';

const SHOP = 'aaaaaaaaaaaaaaaa';

test('a restore that does not fit on the disk answers 507 with both sizes, and writes nothing', async (t) => {
  const { paths, snapshots, addApp } = startSnapshots(t);
  addApp(SHOP, 'shop', 3 * 2 ** 20);
  const { head } = await snapshots.take('a test');
  const routes = snapshotRoutes({
    ...{ snapshots, paths, storageNames: () => ({}) },
    apps: { find: () => SHOP, originOf: () => SHOP, require: () => ({ changes: {} }) },
    disk: { shortage: null, floorMb: 2 ** 40 },
  } as unknown as SnapshotRouteOptions);
  const body = { snapshot: { key: head.id }, app: SHOP, database: null, dry_run: false };
  const request = Readable.from([Buffer.from(JSON.stringify(body))]);
  await assert.rejects(async () => routes['POST /snapshots/restore']({ request } as unknown as Call), {
    status: 507,
    code: 'insufficient_storage',
    message: /^the restore needs 3 MiB of disk space, and 0 MiB are available: .*RUNNER_DISK_FLOOR_MB/,
  });
  assert.equal(existsSync(paths.restoring), false);
});
