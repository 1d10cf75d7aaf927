// Parses the command list at the beginning of a push. The pack after it is forwarded unread.

import type { Role } from '../../sqlite/control/people/access.ts';
import { Problem } from '../problem.ts';
import { discard } from '../transports/body.ts';
import { decoded, isKnownCoding, type Next } from './decompress.ts';

/** Maximum bytes of all commands of a push, decompressed: some 30,000 refs. */
const COMMANDS_LIMIT_BYTES = 4 * 1024 * 1024;
const TOO_MANY = 'its refs have more than 4 MiB of names and commits; push fewer refs at once';
/** Maximum parts of a ref's name, between slashes. Each part is a directory, and snapshots refuse deeply nested directories. */
const REF_PARTS_LIMIT = 50;
const LENGTH_BYTES = 4;

/** One ref update of a push. An all-zero `before` creates the ref, an all-zero `after` deletes the ref. */
export interface RefCommand {
  before: string;
  after: string;
  ref: string;
}

/** The command list of a push. */
export interface Push {
  commands: RefCommand[];
  /** Protocol capabilities of the client. */
  capabilities: string[];
}

/**
 * Reads the commands of a `git-receive-pack` request.
 * @returns the ref updates, and the unchanged body to forward to git
 * @throws {Problem} `forbidden` when the body cannot be parsed: an unknown change cannot be authorized
 */
export async function readPush(request: Request): Promise<Push & { body: ReadableStream<Uint8Array> }> {
  if (request.body === null) throw notUnderstood('it is empty');
  const source = new Prefix(request.body);
  const length = request.headers.get('content-length');
  const coding = request.headers.get('content-encoding');
  const reader = new ByteReader(decoded(() => source.next(), coding));
  const parsing = isKnownCoding(coding)
    ? parseCommands(reader)
    : Promise.reject(notUnderstood(`its content-encoding ${coding} is not supported; use gzip`));
  const push = await parsing.catch(async (error: unknown) => {
    // The client reads the refusal only after it has sent the whole body.
    await discard(await source.whole(length));
    throw error;
  });
  return { ...push, body: await source.whole(length) };
}

/**
 * Returns, by ref, the reasons why a role may not make the changes of a push. Does not check forced updates of branches: the
 * host's git refuses them for the role `push`.
 */
export function refusalsOf({ commands }: Push, role: Role): Map<string, string> {
  const refusals = commands.flatMap(({ before, after, ref }): [string, string][] => {
    if (!isNone(after) && ref.split('/').length > REF_PARTS_LIMIT)
      return [[ref, `its name may have at most ${REF_PARTS_LIMIT} parts between slashes`]];
    if (role !== 'push') return [];
    if (isNone(after)) return [[ref, 'deleting needs the role admin']];
    const moves = !isNone(before) && !ref.startsWith('refs/heads/');
    return moves ? [[ref, 'moving a ref that is not a branch needs the role admin']] : [];
  });
  return new Map(refusals);
}

function isNone(sha: string): boolean {
  return /^0+$/.test(sha);
}

/** Buffers the beginning of a body while it is read, so that the whole body can still be forwarded. */
class Prefix {
  readonly #body: ReadableStream<Uint8Array>;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #kept: Uint8Array[] = [];
  #bytes = 0;
  #reading: Promise<Uint8Array | null> | null = null;

  constructor(body: ReadableStream<Uint8Array>) {
    this.#body = body;
    this.#reader = body.getReader();
  }

  /** Returns the next bytes, or null at the end. */
  next(): Promise<Uint8Array | null> {
    this.#reading = this.#read();
    return this.#reading;
  }

  /** Returns the whole body from its first byte. `next` must not be called afterwards. */
  async whole(contentLength: string | null): Promise<ReadableStream<Uint8Array>> {
    await this.#reading?.catch(() => {});
    this.#reader.releaseLock();
    const { readable, writable } =
      contentLength === null ? new IdentityTransformStream() : new FixedLengthStream(Number(contentLength));
    // The reader of `readable` gets the error; nothing awaits this promise.
    this.#pour(writable).catch(() => {});
    return readable;
  }

  async #read(): Promise<Uint8Array | null> {
    const { value } = await this.#reader.read();
    if (value === undefined) return null;
    this.#bytes += value.length;
    if (this.#bytes > 2 * COMMANDS_LIMIT_BYTES) throw notUnderstood(TOO_MANY);
    this.#kept.push(value);
    return value;
  }

  async #pour(writable: WritableStream<Uint8Array>): Promise<void> {
    const writer = writable.getWriter();
    for (const chunk of this.#kept) await writer.write(chunk);
    writer.releaseLock();
    await this.#body.pipeTo(writable);
  }
}

/** Reads exact numbers of bytes from chunks, up to the size limit of a command list. */
class ByteReader {
  readonly #next: Next;
  #buffer: Uint8Array = new Uint8Array(0);
  #bytes = 0;

  constructor(next: Next) {
    this.#next = next;
  }

  async take(length: number): Promise<Uint8Array> {
    this.#bytes += length;
    if (this.#bytes > COMMANDS_LIMIT_BYTES) throw notUnderstood(TOO_MANY);
    const parts = [this.#buffer];
    for (let have = this.#buffer.length; have < length; ) {
      const chunk = await this.#next().catch((error: unknown) => {
        throw error instanceof Problem ? error : notUnderstood('it cannot be read');
      });
      if (chunk === null) throw notUnderstood('it ends too early');
      parts.push(chunk);
      have += chunk.length;
    }
    const joined = parts.length === 1 ? this.#buffer : join(parts);
    this.#buffer = joined.subarray(length);
    return joined.subarray(0, length);
  }
}

/** Parses pkt-lines up to the flush packet. Skips `shallow` lines. */
async function parseCommands(reader: ByteReader): Promise<Push> {
  const decoder = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true });
  const commands: RefCommand[] = [];
  const capabilities: string[] = [];
  for (;;) {
    const length = lengthOf(decoder.decode(await reader.take(LENGTH_BYTES)));
    if (length === 0) return { commands, capabilities };
    const line = decoder.decode(await reader.take(length - LENGTH_BYTES));
    if (/^shallow [0-9a-f]{40}\n?$/.test(line)) continue;
    // The client's capabilities follow a NUL.
    const command = /^([0-9a-f]{40}) ([0-9a-f]{40}) ([^\0\n]+)(?:\n?$|\n?\0([\s\S]*))/.exec(line);
    if (command === null) throw notUnderstood('it has a line that is not a command');
    commands.push({ before: command[1]!, after: command[2]!, ref: command[3]! });
    capabilities.push(...(command[4]?.trim().split(' ') ?? []));
  }
}

function lengthOf(digits: string): number {
  const length = /^[0-9a-f]{4}$/i.test(digits) ? Number.parseInt(digits, 16) : -1;
  if (length !== 0 && length <= LENGTH_BYTES) throw notUnderstood('it has a line without a length');
  return length;
}

function join(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function notUnderstood(why: string): Problem {
  return new Problem('forbidden', `The push is refused, because it cannot be checked: ${why}.`);
}
