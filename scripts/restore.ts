// `npm run restore -- SNAPSHOT`: makes a whole Cellar of a snapshot, in the empty directory that RUNNER_DATA_DIR names.
import { readConfig } from '../runtime/config.ts';
import { reason } from '../runtime/log.ts';
import { layout } from '../runtime/machine/data-directory.ts';
import { openStore, storePlace } from '../runtime/snapshots/place.ts';
import { missingAfter, restoreWhole } from '../runtime/snapshots/whole.ts';

process.umask(0o077);
const [id] = process.argv.slice(2);
try {
  if (id === undefined)
    throw new Error('usage: npm run restore -- SNAPSHOT, where SNAPSHOT is an id or `latest`');
  const config = readConfig({
    ...process.env,
    RUNNER_TOKEN: process.env.RUNNER_TOKEN || 'not-needed-for-this',
  });
  const paths = layout(config.RUNNER_DATA_DIR);
  const head = await restoreWhole(openStore(storePlace(config, paths)), id, paths);
  console.log(`${paths.root} is as snapshot ${head.id} has it: ${head.apps} apps, ${head.bytes} bytes.`);
  for (const { slug, error } of head.failures)
    console.log(`${slug} is as of an earlier snapshot, for it could not be read then: ${error}`);
  for (const path of missingAfter(paths))
    console.log(
      `No snapshot has ${path}, the key of the apps' secrets: put your copy of it there before you start Cellar, or set the secrets anew.`,
    );
} catch (error) {
  console.error(`restore: ${reason(error)}`);
  process.exitCode = 1;
}
