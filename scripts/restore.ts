// `npm run restore -- SNAPSHOT [--without APP]… [--dry-run]`: restores a whole Cellar from a snapshot into the empty
// directory `RUNNER_DATA_DIR`. Exit codes: 0 all restored; 1 failed and nothing restored, or the dry run found damage;
// 2 wrong command line; 3 some apps left out.
import { parseArgs } from 'node:util';
import { clusterKeyOf } from '../runtime/bucket/cluster-key.ts';
import { bucketPlace } from '../runtime/bucket/place.ts';
import { readConfig } from '../runtime/config.ts';
import { layout } from '../runtime/disk/data-directory.ts';
import { reason } from '../runtime/log.ts';
import { describeWhole, missingAfter, restoreWhole } from '../runtime/snapshots/restore/whole.ts';
import { openStore, storePlace } from '../runtime/snapshots/store/place.ts';
import type { SnapshotStore } from '../runtime/snapshots/store/snapshot-store.ts';

process.umask(0o077);
const { id, without, dryRun } = commandLine();
try {
  const config = readConfig({
    ...process.env,
    RUNNER_TOKEN: process.env.RUNNER_TOKEN || 'not-needed-for-this',
  });
  const paths = layout(config.RUNNER_DATA_DIR);
  const store = openStore(storePlace(config, paths));
  if (dryRun) {
    await describe(store);
    process.exit();
  }
  const place = bucketPlace(config);
  const bucket = place && { place, clusterKey: clusterKeyOf(config, paths) };
  const { head, leftOut } = await restoreWhole(store, id, paths, without, bucket);
  console.log(`${paths.root} is as snapshot ${head.id} has it: ${head.apps} apps, ${head.bytes} bytes.`);
  for (const { slug, error } of head.failures)
    console.log(`${slug} is as of an earlier snapshot, for it could not be read then: ${error}`);
  for (const slug of leftOut)
    console.log(
      `${slug} was left out: the app is there without its code and data. Push its code again, then restore its data of another snapshot: cellar restore SNAPSHOT --app ${slug}`,
    );
  if (leftOut.length > 0) process.exitCode = 3;
  for (const path of missingAfter(paths))
    console.log(
      `No snapshot has ${path}, the key of the apps' secrets: put your copy of it there before you start Cellar, or set the secrets again.`,
    );
} catch (error) {
  console.error(`restore: ${reason(error)}`);
  process.exitCode = 1;
}

async function describe(store: SnapshotStore): Promise<void> {
  const { head, apps, damaged } = await describeWhole(store, id, without);
  console.log(`Snapshot ${head.id}, taken at ${head.created_at}: ${head.apps} apps, ${head.bytes} bytes.`);
  for (const { slug, bytes, isDamaged } of apps)
    console.log(`${slug}: ${bytes} bytes${isDamaged ? ', damaged' : ''}`);
  for (const { slug, error } of head.failures)
    console.log(`${slug} is as of an earlier snapshot, for it could not be read then: ${error}`);
  for (const { slug, host } of head.left_out)
    console.log(`${slug} is not in it: its data is on the host ${host}`);
  console.log('Nothing was restored.');
  if (damaged.length === 0) return;
  console.log(`It cannot restore ${damaged.join(', ')}: objects of the store are missing.`);
  process.exitCode = 1;
}

function commandLine(): { id: string; without: string[]; dryRun: boolean } {
  try {
    const options = {
      without: { type: 'string', multiple: true },
      'dry-run': { type: 'boolean' },
    } as const;
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    if (positionals.length !== 1) throw new Error('it names one snapshot');
    const dryRun = values['dry-run'] === true;
    return { id: positionals[0]!, without: values.without ?? [], dryRun };
  } catch (error) {
    console.error(
      `restore: ${reason(error)}. Usage: npm run restore -- SNAPSHOT [--without APP]… [--dry-run], where SNAPSHOT is a key or \`latest\``,
    );
    process.exit(2);
  }
}
