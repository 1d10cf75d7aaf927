// Content in chunks that are named by their SHA-256. Chunks lie in packs, so that many small files are few objects: a pack
// is a few MiB of chunks one after another, each compressed with zstd where that makes it smaller, and is named by its own
// SHA-256. A chunk that a pack has is not written again.
import { hash } from 'node:crypto';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { Damaged } from '../errors.ts';
import { MissingObject, type Store } from './store.ts';

/** Where a chunk lies. */
export interface Chunk {
  /** SHA-256 of its content, hexadecimal. */
  hash: string;
  /** Name of the pack. */
  pack: string;
  offset: number;
  /** Bytes in the pack. As many as `size`: it is not compressed. */
  length: number;
  /** Bytes of its content. */
  size: number;
}

/** Bytes of a pack before it is written. */
const PACK_BYTES = 16 * 2 ** 20;
/** A file is cut at these sizes, the larger one above so many bytes: a small change of a database is to stay small. */
const SMALL_CHUNK = 64 * 1024;
const LARGE_CHUNK = 2 ** 20;
const LARGE_FILE = 64 * 2 ** 20;
/** Packs that are kept in memory while they are read. */
const KEPT_PACKS = 6;

/** Bytes of the chunks that a file of so many bytes is cut into. */
export function chunkSize(bytes: number): number {
  return bytes > LARGE_FILE ? LARGE_CHUNK : SMALL_CHUNK;
}

/** Writes chunks that no pack has yet. */
export class PackWriter {
  readonly #store: Store;
  /** By hash: those of packs, and those of the pack that is being filled, which have no name yet. */
  readonly #chunks: Map<string, Chunk>;
  #filling: Chunk[] = [];
  #parts: Buffer[] = [];
  #bytes = 0;
  /** Bytes of the packs written, and their names in the store. */
  written = 0;
  readonly names = new Set<string>();

  /** @param known chunks that packs have already */
  constructor(store: Store, known: Iterable<Chunk>) {
    this.#store = store;
    this.#chunks = new Map([...known].map((chunk) => [chunk.hash, chunk]));
  }

  /** The known chunk of this hash, if there is one. */
  has(name: string): Chunk | undefined {
    return this.#chunks.get(name);
  }

  /** Adds content of at most a chunk. @returns its chunk, whose `pack` is known after `finish` */
  async add(content: Buffer): Promise<Chunk> {
    const name = hash('sha256', content);
    const known = this.#chunks.get(name);
    if (known !== undefined) return known;
    const compressed = zstdCompressSync(content);
    // The caller fills its buffer again.
    const stored = compressed.length < content.length ? compressed : Buffer.from(content);
    return this.#put(
      { hash: name, pack: '', offset: 0, length: stored.length, size: content.length },
      stored,
    );
  }

  /** As `add`, though some pack has the content: it is to be in another one. */
  addAgain(content: Buffer): Promise<Chunk> {
    this.#chunks.delete(hash('sha256', content));
    return this.add(content);
  }

  /** Writes what is left. */
  async finish(): Promise<void> {
    if (this.#filling.length === 0) return;
    const bytes = Buffer.concat(this.#parts);
    const pack = hash('sha256', bytes);
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

/** Reads chunks, and believes none of them before it has the right SHA-256. */
export class PackReader {
  readonly #store: Store;
  readonly #packs = new Map<string, Promise<Buffer>>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** @returns a chunk's content. @throws {Damaged} when it is not what it should be */
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
    if (hash('sha256', bytes) !== pack) throw new Damaged(`${packName(pack)} is damaged`);
    return bytes;
  }

  async #pack(pack: string): Promise<Buffer> {
    let found = this.#packs.get(pack);
    if (found === undefined) {
      found = this.#load(pack);
      this.#packs.set(pack, found);
      const [oldest] = this.#packs.keys();
      if (this.#packs.size > KEPT_PACKS) this.#packs.delete(oldest!);
    }
    return found;
  }
}

/** The name of a pack in the store. */
export function packName(pack: string): string {
  return `packs/${pack}`;
}
