// Reads the heads of the snapshots in the store: the first lines of their manifests.
import { reason } from '../log.ts';
import { type Head, listSnapshots, readHead } from './store/manifest.ts';
import { openStore, type StorePlace } from './store/place.ts';
import { kindOf } from './take/retention.ts';
import { readRecord, type VerifyRecord } from './verify.ts';

export interface LookJob {
  kind: 'look';
  store: StorePlace;
  /**
   * An ordinary snapshot is neither hourly nor of a deploy. A host's id: stops at the newest ordinary snapshot with that
   * host's local apps. Empty: stops at the newest ordinary snapshot. Null: reads the heads of all snapshots.
   */
  until: string | null;
}

export interface Looked {
  /** Id of the newest snapshot. */
  newest: string | null;
  /** The newest first. */
  heads: Head[];
  /** Snapshots that cannot be read. */
  unreadable: { id: string; error: string }[];
  record: VerifyRecord | null;
}

/** Maximum number of heads that are read, unless `until` is null. */
const MOST_LOOKED_AT = 200;

/** Reads heads and the last verification. @throws {Error} when the store cannot be read; {Unusable} when a key is invalid */
export async function look({ store: place, until }: LookJob): Promise<Looked> {
  const store = openStore(place);
  // Reports an invalid key before a snapshot needs it.
  await store.seal(Buffer.alloc(0));
  const ids = (await listSnapshots(store)).reverse();
  const heads: Head[] = [];
  const unreadable: Looked['unreadable'] = [];
  for (const id of until === null ? ids : ids.slice(0, MOST_LOOKED_AT)) {
    try {
      const head = await readHead(store, id);
      heads.push(head);
      if (kindOf(head) === 'other' && (until === '' || head.host === until)) break;
    } catch (error) {
      unreadable.push({ id, error: reason(error) });
    }
  }
  return { newest: ids[0] ?? null, heads, unreadable, record: await readRecord(store) };
}
