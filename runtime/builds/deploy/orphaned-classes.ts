// Warns in a deploy's log about Durable Objects that the Worker may have lost by renaming their class without a migration.
import type { StorageNames } from '../../storage/names.ts';
import { readRelease } from '../release/release.ts';
import type { DeployLog } from './deploy-log.ts';

/**
 * Warns when the deploy adds classes, and the Worker no longer exports other classes. These may have objects.
 * @param release its directory
 * @param names the app's storage names before the deploy, and with it
 */
export async function reportOrphanedClasses(
  release: string,
  { before, after }: { before: StorageNames; after: StorageNames },
  log: DeployLog,
): Promise<void> {
  const { exports } = (await readRelease(release)) ?? {};
  if (exports === undefined) return;
  const ids = Object.values(before.classes).map(({ id }) => id);
  const made = Object.keys(after.classes).filter((name) => !ids.includes(after.classes[name]!.id));
  const left = Object.keys(after.classes).filter((name) => !made.includes(name) && !exports.includes(name));
  if (made.length === 0 || left.length === 0) return;
  log.line(
    `warning: ${made.join(', ')} starts without objects, and the objects of ${left.join(', ')}, which the Worker no longer exports, are unused: if you renamed a class, add "renamed_classes" to "migrations"`,
  );
}
