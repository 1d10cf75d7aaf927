// Puts the code of a snapshot into the bucket.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { codePlace, packObject, REFS } from '../../bucket/code/code-names.ts';
import { readRefsJson } from '../../bucket/code/refs-content.ts';
import type { S3Place } from '../../bucket/place.ts';
import { S3Store } from '../../bucket/s3-store.ts';

/**
 * Puts code into the bucket. Skips repositories and releases that the bucket already has: they are newer. May be repeated
 * after a failure.
 * @param directory has a directory for each app, with the parts of its code as they are in the bucket
 * @throws {Error} when the bucket does not take it
 */
export async function restoreCode(place: S3Place, directory: string): Promise<void> {
  for (const appId of namesIn(directory)) {
    await restoreRepository(
      new S3Store(codePlace(place, appId, 'repository')),
      join(directory, appId, 'repository'),
    );
    const releases = new S3Store(codePlace(place, appId, 'releases'));
    for (const name of namesIn(join(directory, appId, 'releases')))
      if (!(await releases.has(name)))
        await releases.writeFile(name, join(directory, appId, 'releases', name));
  }
}

async function restoreRepository(store: S3Store, directory: string): Promise<void> {
  if (!existsSync(join(directory, REFS)) || (await store.has(REFS))) return;
  const refs = readFileSync(join(directory, REFS));
  // The refs come last, because they need the packs.
  for (const name of readRefsJson(refs, REFS).packs.map(packObject))
    await store.writeFile(name, join(directory, name));
  await store.writeIf(REFS, refs, null);
}

function namesIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}
