// Verifies that the store has all packs that snapshots need, undamaged.
import type { Verified } from '../../handlers/contract/admin.ts';
import { MissingObject } from '../bucket/store.ts';
import { Locked, NotThere, Unusable } from './errors.ts';
import { listSnapshots, manifestName, type Part, readManifest } from './store/manifest.ts';
import { requireOwn, type StoreOwner } from './store/owner.ts';
import { isPack, packName } from './store/packs.ts';
import { openStore, type StorePlace } from './store/place.ts';
import type { SnapshotStore } from './store/snapshot-store.ts';

export interface VerifyJob extends StoreOwner {
  kind: 'verify';
  store: StorePlace;
}

/** The last verification, saved in the store, so that the next snapshot replaces damaged packs. */
export interface VerifyRecord extends Verified {
  /** All bad packs that snapshots need. */
  bad: BadPacks;
}

/** The problems of unusable packs, by the pack's name in the store. */
export type BadPacks = Record<string, 'missing' | 'damaged'>;

const RECORD = 'verified.json';
const MAX_OBJECTS = 50;
const MAX_SNAPSHOTS = 100;
const MAX_PARTS = 50;

export const NEVER_VERIFIED: Verified = {
  at: null,
  snapshots: 0,
  packs: 0,
  bytes: 0,
  objects: [],
  damaged: [],
};

/**
 * Reads every pack that a snapshot needs, and compares its SHA-256. Snapshots may be taken meanwhile.
 * @throws {Locked} when a snapshot is encrypted with another key; {Unusable} as `requireOwn` does; {Error} when the store
 *   cannot be read
 */
export async function verify({ store: place, ...owner }: VerifyJob): Promise<Verified> {
  const store = openStore(place);
  const ids = await listSnapshots(store);
  // Writes nothing to a new store: the first snapshot claims it.
  if (ids.length === 0 && owner.claimed === null) return { ...NEVER_VERIFIED, at: new Date().toISOString() };
  await requireOwn(store, owner);
  const needed = new Set<string>();
  for (const id of ids) {
    for (const part of (await partsOf(store, id)) ?? []) for (const pack of packsOf(part)) needed.add(pack);
  }
  let bytes = 0;
  const suspects: string[] = [];
  for (const pack of needed) {
    const found = await look(store, pack);
    bytes += found.bytes;
    if (found.problem !== null) suspects.push(pack);
  }
  // A second read: the first transfer may have been corrupted, or a snapshot may have written the pack again.
  const bad: BadPacks = {};
  for (const pack of suspects) {
    const { problem } = await look(store, pack);
    if (problem !== null) bad[packName(pack)] = problem;
  }
  const at = new Date().toISOString();
  return record(store, bad, { at, packs: needed.size, bytes });
}

/** Finds the snapshots that need bad packs, and saves the result. */
export async function record(
  store: SnapshotStore,
  bad: BadPacks,
  about: Pick<Verified, 'at' | 'packs' | 'bytes'>,
): Promise<Verified> {
  const damaged: Verified['damaged'] = [];
  const objects = new Map<string, 'missing' | 'damaged'>();
  const ids = (await listSnapshots(store)).reverse();
  for (const id of ids) {
    const parts = await partsOf(store, id).catch(nothingIfLocked);
    if (parts === null) {
      objects.set(manifestName(id), 'damaged');
      damaged.push({ key: id, parts: [{ app: null, name: 'everything' }] });
      continue;
    }
    const hit = parts.filter((part) => {
      const names = [...packsOf(part)].map(packName).filter((name) => Object.hasOwn(bad, name));
      for (const name of names) objects.set(name, bad[name]!);
      return names.length > 0;
    });
    if (hit.length > 0) damaged.push({ key: id, parts: hit.slice(0, MAX_PARTS).map(shown) });
  }
  const verified: Verified = {
    at: about.at,
    snapshots: ids.length,
    packs: about.packs,
    bytes: about.bytes,
    objects: [...objects].slice(0, MAX_OBJECTS).map(([name, problem]) => ({ name, problem })),
    damaged: damaged.slice(0, MAX_SNAPSHOTS),
  };
  const needed = Object.fromEntries(Object.entries(bad).filter(([name]) => objects.has(name)));
  const kept: VerifyRecord = { ...verified, bad: needed };
  await store.write(RECORD, await store.seal(Buffer.from(`${JSON.stringify(kept)}\n`)));
  return verified;
}

/** Returns the saved result; null when there is none that can be read. */
export async function readRecord(store: SnapshotStore): Promise<VerifyRecord | null> {
  try {
    const text = await store.open(RECORD, await store.read(RECORD));
    const kept = JSON.parse(text.toString('utf8')) as VerifyRecord;
    return typeof kept.bad === 'object' && Array.isArray(kept.damaged) ? kept : null;
  } catch (error) {
    const isUseless = error instanceof Unusable || error instanceof SyntaxError;
    if (error instanceof MissingObject || isUseless) return null;
    throw error;
  }
}

/** Returns a part's name for messages. */
export function nameOf({ kind, slug }: Pick<Part, 'kind' | 'slug'>): string {
  if (kind === 'app') return slug;
  return kind === 'host' ? "the host's database" : 'the control plane';
}

/** Returns the packs that a part needs. */
export function packsOf({ files }: Pick<Part, 'files'>): Set<string> {
  return new Set(files.flatMap(({ chunks }) => chunks.map(({ pack }) => pack)));
}

function shown(part: Part): Verified['damaged'][number]['parts'][number] {
  return { app: part.kind === 'app' ? part.id : null, name: nameOf(part) };
}

/** Returns the parts of a snapshot: null when it is unusable, an empty list when it was removed meanwhile. */
async function partsOf(store: SnapshotStore, id: string): Promise<Part[] | null> {
  try {
    return (await readManifest(store, id)).parts;
  } catch (error) {
    if (error instanceof NotThere) return [];
    if (error instanceof Locked) throw error;
    if (error instanceof Unusable || isUnreadable(error)) return null;
    throw error;
  }
}

/** Returns no parts for a snapshot that this host cannot decrypt, because its packs are unknown. */
function nothingIfLocked(error: unknown): Part[] {
  if (error instanceof Locked) return [];
  throw error;
}

async function look(
  store: SnapshotStore,
  pack: string,
): Promise<{ problem: BadPacks[string] | null; bytes: number }> {
  try {
    const content = await store.read(packName(pack));
    return { problem: isPack(pack, content) ? null : 'damaged', bytes: content.length };
  } catch (error) {
    if (error instanceof MissingObject) return { problem: 'missing', bytes: 0 };
    if (isUnreadable(error)) return { problem: 'damaged', bytes: 0 };
    throw error;
  }
}

/** Whether the disk itself cannot read the bytes. */
export function isUnreadable(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EIO';
}
