// Stores content in chunks, which are named by their SHA-256. Packs of chunks turn many small files into few objects. A
// pack is a few MiB of concatenated chunks, named by the SHA-256 of its bytes in the store, which may be encrypted. Each
// chunk is compressed with zstd if that makes it smaller. A chunk that a pack has is not written again.
import { hash } from 'node:crypto';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { MissingObject } from '../../bucket/store.ts';
import { Damaged } from '../errors.ts';
import type { SnapshotStore } from './snapshot-store.ts';

/** The position of a chunk. */
export interface Chunk {
  /** SHA-256 of its content, hexadecimal. */
  hash: string;
  /** Name of the pack: its SHA-256, and the mark of the key that has encrypted it. */
  pack: string;
  offset: number;
  /** Bytes in the pack. If equal to `size`, the chunk is not compressed. */
  length: number;
  /** Bytes of its content. */
  size: number;
}

/** A pack is written when it has this many bytes. */
const PACK_BYTES = 16 * 2 ** 20;
/** Bytes of a chunk. Chunks are small, so that a small change of a database writes few bytes. */
const SMALL_CHUNK = 64 * 1024;
/** Bytes of a chunk of a file above `LARGE_FILE`. */
const LARGE_CHUNK = 2 ** 20;
const LARGE_FILE = 64 * 2 ** 20;
/** Length of the SHA-256 with which a pack's name begins. */
const HASH_DIGITS = 64;
/** Maximum packs in the reader's cache. */
const CACHED_PACKS = 6;

/** Returns the chunk size for a file, in bytes. */
export function chunkSize(bytes: number): number {
  return bytes > LARGE_FILE ? LARGE_CHUNK : SMALL_CHUNK;
}

/** Writes chunks that no pack has yet. */
export class PackWriter {
  readonly #store: SnapshotStore;
  /** By hash: chunks of written packs, and of the current pack, which has no name yet. */
  readonly #chunks: Map<string, Chunk>;
  #filling: Chunk[] = [];
  #parts: Buffer[] = [];
  #bytes = 0;
  /** Bytes of the written packs. */
  written = 0;
  /** Names of the written packs in the store. */
  readonly names = new Set<string>();

  /** @param known chunks in existing packs */
  constructor(store: SnapshotStore, known: Iterable<Chunk>) {
    this.#store = store;
    this.#chunks = new Map([...known].map((chunk) => [chunk.hash, chunk]));
  }

  /** Returns the known chunk with this hash, if there is one. */
  has(name: string): Chunk | undefined {
    return this.#chunks.get(name);
  }

  /** Adds the content of one chunk. @returns the chunk, whose `pack` is set at the latest by `finish` */
  async add(content: Buffer): Promise<Chunk> {
    const name = hash('sha256', content);
    const known = this.#chunks.get(name);
    if (known !== undefined) return known;
    const compressed = zstdCompressSync(content);
    // Copied, because the caller reuses its buffer.
    const stored = compressed.length < content.length ? compressed : Buffer.from(content);
    return this.#put(
      { hash: name, pack: '', offset: 0, length: stored.length, size: content.length },
      stored,
    );
  }

  /** Adds content to the current pack even if another pack has it. */
  addAgain(content: Buffer): Promise<Chunk> {
    this.#chunks.delete(hash('sha256', content));
    return this.add(content);
  }

  /** Writes the current pack. */
  async finish(): Promise<void> {
    if (this.#filling.length === 0) return;
    const bytes = await this.#store.seal(Buffer.concat(this.#parts));
    const pack = hash('sha256', bytes) + this.#store.mark;
    await this.#store.write(packName(pack), bytes);
    for (const chunk of this.#filling) chunk.pack = pack;
    this.written += bytes.length;
    this.names.add(packName(pack));
    this.#filling = [];
    this.#parts = [];
    this.#bytes = 0;
  }

  async #put(chunk: Chunk, stored: Buffer): Promise<Chunk> {
    chunk.offset = this.#bytes;
    this.#parts.push(stored);
    this.#bytes += stored.length;
    this.#filling.push(chunk);
    this.#chunks.set(chunk.hash, chunk);
    if (this.#bytes >= PACK_BYTES) await this.finish();
    return chunk;
  }
}

/** Reads chunks, and checks the SHA-256 of each. */
export class PackReader {
  readonly #store: SnapshotStore;
  readonly #packs = new Map<string, Promise<Buffer>>();

  constructor(store: SnapshotStore) {
    this.#store = store;
  }

  /**
   * Returns a chunk's content.
   * @throws {Damaged} when its SHA-256 is wrong, or its pack is missing; {Locked} when no key decrypts the pack
   */
  async read({ hash: name, pack, offset, length, size }: Chunk): Promise<Buffer> {
    const stored = (await this.#pack(pack)).subarray(offset, offset + length);
    let content: Buffer;
    try {
      content = length === size ? stored : zstdDecompressSync(stored, { maxOutputLength: size });
    } catch {
      throw new Damaged(`${packName(pack)} is damaged`);
    }
    if (hash('sha256', content) !== name) throw new Damaged(`${packName(pack)} is damaged`);
    return content;
  }

  async #load(pack: string): Promise<Buffer> {
    const bytes = await this.#store.read(packName(pack)).catch((error: unknown) => {
      throw error instanceof MissingObject ? new Damaged(error.message) : error;
    });
    if (!isPack(pack, bytes)) throw new Damaged(`${packName(pack)} is damaged`);
    // The name decides whether the pack is encrypted. Its first bytes may be data that an app itself encrypted with age.
    return pack.length === HASH_DIGITS ? bytes : this.#store.open(packName(pack), bytes);
  }

  async #pack(pack: string): Promise<Buffer> {
    let found = this.#packs.get(pack);
    if (found === undefined) {
      found = this.#load(pack);
      this.#packs.set(pack, found);
      const [oldest] = this.#packs.keys();
      if (this.#packs.size > CACHED_PACKS) this.#packs.delete(oldest!);
    }
    return found;
  }
}

/** Whether these bytes are those of the pack. */
export function isPack(pack: string, bytes: Buffer): boolean {
  return pack.slice(0, HASH_DIGITS) === hash('sha256', bytes);
}

/** Whether the store's first key has encrypted the pack; without a key, whether the pack is not encrypted. */
export function isMarked(pack: string, { mark }: SnapshotStore): boolean {
  return pack.slice(HASH_DIGITS) === mark;
}

/** Returns the name of a pack in the store. */
export function packName(pack: string): string {
  return `packs/${pack}`;
}
