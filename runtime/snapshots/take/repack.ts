// Rewrites packs when a snapshot needs only a small part of them. The rest wastes space once no older snapshot needs it.

import { reason } from '../../log.ts';
import type { Part } from '../store/manifest.ts';
import { type Chunk, PackReader, type PackWriter, packName } from '../store/packs.ts';
import type { SnapshotStore } from '../store/snapshot-store.ts';

/** A pack is rewritten if the snapshot needs less than this share of its bytes. */
const NEEDED_SHARE = 0.3;
/** Maximum bytes to rewrite for one snapshot; later snapshots do the rest. */
const MAX_BYTES = 128 * 2 ** 20;

/**
 * Copies the needed chunks of mostly unused packs into new packs, and updates `parts`. The old packs stay while a snapshot
 * needs them.
 * @param sizes bytes of the packs that existed before this snapshot, by name in the store
 */
export async function repack(
  store: SnapshotStore,
  packs: PackWriter,
  parts: Part[],
  { sizes, warn }: { sizes: ReadonlyMap<string, number>; warn: (message: string) => void },
): Promise<void> {
  const files = parts.flatMap((part) => part.files);
  const moved = new Map<string, Chunk>();
  const reader = new PackReader(store);
  let left = MAX_BYTES;
  for (const [pack, chunks] of chunksByPack(files.flatMap((file) => file.chunks))) {
    const needed = chunks.reduce((sum, { length }) => sum + length, 0);
    if (needed >= (sizes.get(packName(pack)) ?? 0) * NEEDED_SHARE || needed > left) continue;
    try {
      for (const chunk of chunks) moved.set(chunk.hash, await packs.addAgain(await reader.read(chunk)));
      left -= needed;
    } catch (error) {
      warn(`a mostly unused pack was not written again: ${reason(error)}`);
    }
  }
  if (moved.size === 0) return;
  for (const file of files) file.chunks = file.chunks.map((chunk) => moved.get(chunk.hash) ?? chunk);
}

/** Groups chunks by pack, without duplicates. Skips those of the current pack, which has no name yet. */
function chunksByPack(chunks: Chunk[]): Map<string, Chunk[]> {
  const found = new Map<string, Map<string, Chunk>>();
  for (const chunk of chunks) {
    if (chunk.pack === '') continue;
    const known = found.get(chunk.pack) ?? new Map<string, Chunk>();
    found.set(chunk.pack, known.set(chunk.hash, chunk));
  }
  return new Map([...found].map(([pack, known]) => [pack, [...known.values()]]));
}
