// The manifest of a snapshot: one object, written last, that lists every file and its chunks. The first line, the head, is
// JSON, with a checksum of the object. The body is lines of JSON, compressed with zstd.
import { createHash } from 'node:crypto';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import * as z from 'zod';
import { MissingObject } from '../../bucket/store.ts';
import { reason } from '../../log.ts';
import { Damaged, NotThere, Unusable } from '../errors.ts';
import type { Chunk } from './packs.ts';
import type { SnapshotStore } from './snapshot-store.ts';

/** Increase it with every change that an older Cellar would misread. */
const FORMAT = 1;
const FOLDER = 'snapshots/';
/** Maximum bytes of the head. */
const HEAD_BYTES = 2 ** 17;
/** Maximum bytes of the decompressed body. */
const BODY_BYTES = 2 ** 31;

const failureSchema = z.object({ app: z.string(), slug: z.string(), error: z.string() });
const leftOutSchema = z.object({ app: z.string(), slug: z.string(), host: z.string() });
const headSchema = z.object({
  cellar: z.literal('snapshot'),
  format: z.number(),
  id: z.string(),
  /** Id of the Cellar that took it. */
  of: z.string(),
  created_at: z.string(),
  /**
   * When the snapshot had read all apps. Older Cellars did not record it: then it is empty, and a restore uses `created_at`.
   */
  read_at: z.string().default(''),
  why: z.string(),
  /** Bytes that were written for the snapshot, without the manifest. */
  written: z.number(),
  /** Bytes of all files of the snapshot. */
  bytes: z.number(),
  apps: z.number(),
  /** Some of the apps that could not be read. `Part.failed` marks all of them, except in snapshots of older Cellars. */
  failures: z.array(failureSchema),
  /** Id of the host whose local apps (data on its disk) the snapshot has. Empty without them, or in a Cellar of one host. */
  host: z.string().default(''),
  /** Apps whose data is on another host's disk, with that host's name. */
  left_out: z.array(leftOutSchema).default([]),
  /** SHA-256 of the head without this field, and of the compressed body. */
  checksum: z.string(),
});

/** The first line of a manifest. */
export type Head = z.output<typeof headSchema>;

/** An app that a snapshot does not have, and the name of the host that has its data. */
export type LeftOut = z.output<typeof leftOutSchema>;

/** A file, or a directory, whose path ends with `/`. */
export interface FileEntry {
  /** Relative to the data directory. */
  path: string;
  size: number;
  mode: number;
  /** A text that changes whenever the file changes; empty when a change might leave it the same. */
  stamp: string;
  chunks: Chunk[];
}

/** The files of the host's database, of the control plane, or of an app. */
export interface Part {
  kind: 'host' | 'control' | 'app';
  /** The app's id; empty for the other kinds. */
  id: string;
  slug: string;
  files: FileEntry[];
  /** Whether the app could not be read: its files are those of the previous snapshot, if that has the app. */
  failed?: boolean;
}

export interface Manifest {
  head: Head;
  parts: Part[];
}

/** Matches the ids that `idAt` makes. Other programs may put files beside the manifests, such as `Thumbs.db`. */
const ID = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$/;
const SHA256 = /^[0-9a-f]{64}$/;
const PACK = /^[0-9a-f]{64}(-[0-9a-f]{8})?$/;
const partLine = z.strictObject({
  kind: z.enum(['host', 'control', 'app']),
  id: z.string().regex(/^[0-9a-z]*$/),
  slug: z.string(),
});
const fileLine = z.strictObject({
  path: z.string().refine(isInside, 'leads out of the data directory'),
  size: z.int().min(0),
  mode: z.int().min(0).max(0o777),
  stamp: z.string(),
  chunks: z.array(z.int().min(0)),
});

/** Whether a relative path stays below its root. */
function isInside(path: string): boolean {
  const names = path.replace(/\/$/, '').split('/');
  return names.every((name) => name !== '' && name !== '.' && name !== '..' && !name.includes('\0'));
}

/** Writes a manifest, which completes the snapshot. @returns its head, and its size in bytes */
export async function writeManifest(
  store: SnapshotStore,
  about: Omit<z.input<typeof headSchema>, 'cellar' | 'format' | 'checksum'>,
  parts: Part[],
): Promise<{ head: Head; bytes: number }> {
  const body = zstdCompressSync(Buffer.concat([...lines(parts)]));
  const { read_at = '', host = '', left_out = [] } = about;
  const of = { cellar: 'snapshot', format: FORMAT } as const;
  const unsigned: Omit<Head, 'checksum'> = { ...of, ...about, read_at, host, left_out };
  const head: Head = { ...unsigned, checksum: checksum(unsigned, body) };
  const bytes = Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), body]);
  const sealed = await store.seal(bytes);
  await store.write(manifestName(about.id), sealed);
  return { head, bytes: sealed.length };
}

function* lines(parts: Part[]): Generator<Buffer> {
  const packs = new Map<string, number>();
  const numbers = new Map<Chunk, number>();
  for (const { files } of parts) {
    for (const chunk of files.flatMap(({ chunks }) => chunks)) {
      if (numbers.has(chunk)) continue;
      numbers.set(chunk, numbers.size);
      if (!packs.has(chunk.pack)) {
        packs.set(chunk.pack, packs.size);
        yield line({ pack: chunk.pack });
      }
      const { hash: name, offset, length, size } = chunk;
      yield line({ chunk: [name, packs.get(chunk.pack), offset, length, size] });
    }
  }
  for (const { kind, id, slug, files, failed } of parts) {
    // Not in `part`: an older Cellar refuses unknown fields there.
    yield line({ part: { kind, id, slug }, failed });
    for (const file of files)
      yield line({ file: { ...file, chunks: file.chunks.map((chunk) => numbers.get(chunk)) } });
  }
}

function line(value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}

/** Returns the snapshot id for a time. */
export function idAt(time: Date): string {
  return time.toISOString().replace(/[:.]/g, '-');
}

/**
 * Returns the id of a snapshot taken now. It sorts after `ids` even if the clock was set back since the last of them.
 * Otherwise that one would stay the newest, and new snapshots would be removed first.
 * @param ids of all snapshots, the oldest first
 */
export function nextId(ids: string[], now: Date): string {
  const last = ids.at(-1);
  const next = last === undefined ? 0 : timeOf(last) + 1;
  return idAt(next > now.getTime() ? new Date(next) : now);
}

/** Returns when a snapshot was taken, in ms since 1970: approximate if the clock was set back. */
export function timeOf(id: string): number {
  return Date.parse(id.replace(/^(.{10}T..)-(..)-(..)-(...Z)$/, '$1:$2:$3.$4'));
}

/** Returns the name of a snapshot's own object in the store. */
export function manifestName(id: string): string {
  return FOLDER + id;
}

/** Returns the ids of the snapshots in a store, the oldest first. */
export async function listSnapshots(store: SnapshotStore): Promise<string[]> {
  const names = (await store.list(FOLDER)).map(({ name }) => name.slice(FOLDER.length));
  return names.filter((name) => ID.test(name));
}

/** Reads a manifest. @throws {NotThere}, {Damaged}, {Locked}, {Unusable} when a newer Cellar wrote it */
export async function readManifest(store: SnapshotStore, id: string): Promise<Manifest> {
  const bytes = await readObject(id, async (name) => store.open(name, await store.read(name)));
  const end = bytes.indexOf('\n');
  const { head, unsigned } = parseHead(id, bytes.subarray(0, Math.max(0, end)));
  const body = bytes.subarray(end + 1);
  if (checksum(unsigned, body) !== head.checksum)
    throw new Damaged(`${FOLDER}${id} is damaged: its checksum is wrong`);
  try {
    return { head, parts: parseBody(zstdDecompressSync(body, { maxOutputLength: BODY_BYTES })) };
  } catch (error) {
    throw new Damaged(`${FOLDER}${id} is damaged: ${reason(error)}`);
  }
}

/** Reads the first line of a manifest, whose checksum it cannot check. @throws as `readManifest` does */
export async function readHead(store: SnapshotStore, id: string): Promise<Head> {
  const bytes = await readObject(id, (name) => store.openStart(name, HEAD_BYTES));
  return parseHead(id, bytes.subarray(0, Math.max(0, bytes.indexOf('\n')))).head;
}

/** Removes a snapshot's manifest. Its packs stay until no snapshot needs them, and are removed by `removeOld`. */
export async function removeManifest(store: SnapshotStore, id: string): Promise<void> {
  await store.remove(manifestName(id));
}

async function readObject(id: string, read: (name: string) => Promise<Buffer>): Promise<Buffer> {
  if (!/^[\w-]{1,64}$/.test(id))
    throw new NotThere(`there is no snapshot ${JSON.stringify(id.slice(0, 64))}`);
  return read(manifestName(id)).catch((error: unknown) => {
    throw error instanceof MissingObject ? new NotThere(`there is no snapshot ${id}`) : error;
  });
}

function parseHead(id: string, text: Buffer): { head: Head; unsigned: object } {
  const damaged = () => new Damaged(`${FOLDER}${id} is damaged: its first line is not that of a snapshot`);
  let said: { cellar?: unknown; format?: unknown; checksum?: unknown };
  try {
    said = JSON.parse(text.toString('utf8'));
  } catch {
    throw damaged();
  }
  // Checked first: a newer format may have other fields.
  if (said?.cellar === 'snapshot' && typeof said.format === 'number' && said.format > FORMAT)
    throw new Unusable(
      `snapshot ${id} was written by a newer Cellar (format ${said.format}, this one knows ${FORMAT})`,
    );
  const parsed = headSchema.safeParse(said);
  if (!parsed.success || parsed.data.id !== id) throw damaged();
  const { checksum: _, ...unsigned } = said;
  return { head: parsed.data, unsigned };
}

function checksum(unsigned: object, body: Buffer): string {
  return createHash('sha256').update(JSON.stringify(unsigned)).update(body).digest('hex');
}

function parseBody(body: Buffer): Part[] {
  const packs: string[] = [];
  const chunks: Chunk[] = [];
  const parts: Part[] = [];
  for (let from = 0, to = 0; from < body.length; from = to + 1) {
    to = body.indexOf('\n', from);
    if (to === -1) throw new Error('its last line is cut');
    const { pack, chunk, part, failed, file } = JSON.parse(body.toString('utf8', from, to));
    if (typeof pack === 'string' && PACK.test(pack)) packs.push(pack);
    else if (chunk) chunks.push(readChunk(chunk, packs));
    else if (part) parts.push({ ...partLine.parse(part), files: [], failed: failed === true });
    else {
      const entry = fileLine.parse(file);
      at(parts, parts.length - 1, 'part').files.push({
        ...entry,
        chunks: entry.chunks.map((n) => at(chunks, n, 'chunk')),
      });
    }
  }
  return parts;
}

/**
 * Parses a chunk without a schema, because there is a chunk for each 64 KiB of a file (1 MiB if the file is large). With a
 * schema, parsing would take most of the time at the start of a snapshot with few changes.
 * @throws {Error} when it is not a chunk
 */
function readChunk(said: unknown, packs: string[]): Chunk {
  const [hash, ...numbers] = Array.isArray(said) ? said : [];
  const [pack, offset, length, size] = numbers;
  const isChunk = typeof hash === 'string' && SHA256.test(hash) && numbers.length === 4;
  if (!isChunk || !numbers.every((number) => Number.isSafeInteger(number) && number >= 0))
    throw new Error('one of its lines does not describe a chunk');
  return { hash, pack: at(packs, pack, 'pack'), offset, length, size };
}

function at<T>(list: T[], index: number, what: string): T {
  const found = list[index];
  if (found === undefined) throw new Error(`it refers to a ${what} that it does not contain`);
  return found;
}
