// Records in a store which Cellar owns it.

import { ifThere, type Store } from '../../bucket/store.ts';
import { Unusable } from '../errors.ts';

const OWNER = 'cellar.json';

/** Claims the store for this Cellar. @throws {Unusable} when another Cellar has it */
export async function requireOwn(store: Store, of: string): Promise<void> {
  const found = await ifThere(store.read(OWNER));
  if (found === null) return store.write(OWNER, Buffer.from(`${JSON.stringify({ cellar: of })}\n`));
  const { cellar } = JSON.parse(found.toString('utf8')) as { cellar: string };
  if (cellar !== of)
    throw new Unusable(
      `the place of snapshots has snapshots of another Cellar (${cellar}, this one is ${of}): set RUNNER_SNAPSHOT_URL to another place`,
    );
}
