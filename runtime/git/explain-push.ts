// Explains refused pushes, where git's own message names neither the limit nor a solution.
import { Transform, type TransformCallback } from 'node:stream';
import { GIT_MEMORY_MB, isOutOfMemory } from './program.ts';

const LENGTH_BYTES = 4;
/** The side band for git's report. */
const REPORT_BAND = 1;
/** The side band for text that the pusher sees. */
const SHOWN_BAND = 2;
/** The side band for a fatal error: the answer ends without a report. */
const ERROR_BAND = 3;
const OUT_OF_MEMORY = `this push has a commit, tag or folder that is too large: git may use ${GIT_MEMORY_MB} MiB of memory. Shorten the message or split the folder, in the commit that has it, and push again\n`;
/** git's message when a branch was moved during the push, or is locked. */
const CAME_LATE =
  /^error: cannot lock ref '([^']+)': (?:is at \w+ but expected \w+|reference already exists|(Unable to create '[^']*': File exists)\.[\s\S]*)$/m;
/** git's reasons in its report for a moved or locked branch. Newer versions of git name the cause only in the report. */
const LATE_REPORTS = /^(?:cannot lock ref|failed to update ref|incorrect old value|reference already exists)/;
const FIRST = 'came first; fetch and push again';
/** A killed git also leaves a lock, which Cellar removes after this push. */
const LOCKED = 'locked by another push, or by one that was interrupted; push again';

/**
 * Forwards the packets of a push's answer. Adds an explanation when git runs out of memory, when another push came
 * first, or when the push was not stored.
 */
export class ExplainPush extends Transform {
  /** An incomplete packet, at most 64 KiB. */
  #rest: Buffer = Buffer.alloc(0);
  /** Refs that another push has moved or locked, with the reason for the report. */
  readonly #late = new Map<string, string>();
  /** Why a change of refs was not stored. */
  #aborted: string | null = null;
  #isStored = false;

  /**
   * Call it when a change of refs was not stored. git then ends without an answer, because its hook failed, and does
   * not know the reason.
   */
  aborted(why: string): void {
    this.#aborted = why;
  }

  /** Call it when git has stored the push. The log of the deploy follows, in the same side band as git's messages. */
  stored(): void {
    this.#isStored = true;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const { packets, rest } = split(Buffer.concat([this.#rest, chunk]));
    this.#rest = rest;
    if (packets.length > 0) this.push(Buffer.concat(packets.map((each) => this.#explained(each))));
    done();
  }

  override _flush(done: TransformCallback): void {
    this.push(this.#rest);
    if (this.#aborted !== null) this.push(packet(ERROR_BAND, Buffer.from(`${this.#aborted}\n`)));
    done();
  }

  #explained(whole: Buffer): Buffer {
    const band = whole[LENGTH_BYTES];
    const content = whole.subarray(LENGTH_BYTES + 1);
    if (band === REPORT_BAND && this.#late.size > 0) return packet(band, this.#report(content));
    if (band !== SHOWN_BAND) return whole;
    const text = content.toString('latin1');
    if (!this.#isStored && isOutOfMemory(text))
      return Buffer.concat([whole, packet(band, Buffer.from(OUT_OF_MEMORY))]);
    const [said, ref, lock] = CAME_LATE.exec(text) ?? [];
    if (said === undefined) return whole;
    this.#late.set(ref!, lock ? LOCKED : `another push ${FIRST}`);
    const name = ref!.replace(/^refs\/heads\//, '');
    const plain = lock ? `${name} is ${LOCKED}` : `another push to ${name} ${FIRST}`;
    return packet(
      band,
      Buffer.from(
        text.replace(said, () => plain),
        'latin1',
      ),
    );
  }

  /** Explains the refs in `#late`. The report has packets of its own: `ok REF`, or `ng REF REASON`. */
  #report(content: Buffer): Buffer {
    const { packets, rest } = split(content);
    const lines = packets.map((line) => {
      const [, ref, why] = /^ng (\S+) (.*)\n?$/.exec(line.toString('latin1', LENGTH_BYTES)) ?? [];
      const late = ref === undefined ? undefined : this.#late.get(ref);
      if (late === undefined || !LATE_REPORTS.test(why!)) return line;
      return packet(null, Buffer.from(`ng ${ref} ${late}\n`, 'latin1'));
    });
    return Buffer.concat([...lines, rest]);
  }
}

/** Splits bytes into whole packets, lengths included, and the incomplete rest. */
function split(data: Buffer): { packets: Buffer[]; rest: Buffer } {
  const packets: Buffer[] = [];
  let at = 0;
  while (data.length - at >= LENGTH_BYTES) {
    // Flush and delimiter packets have lengths below 4.
    const said = Number.parseInt(data.toString('latin1', at, at + LENGTH_BYTES), 16);
    const length = Math.max(LENGTH_BYTES, said);
    if (!(data.length - at >= length)) break;
    packets.push(data.subarray(at, at + length));
    at += length;
  }
  return { packets, rest: data.subarray(at) };
}

/** Returns a packet. @param band null for a packet outside the side bands */
function packet(band: number | null, content: Buffer): Buffer {
  const head = band === null ? Buffer.alloc(0) : Buffer.of(band);
  const length = LENGTH_BYTES + head.length + content.length;
  return Buffer.concat([Buffer.from(length.toString(16).padStart(LENGTH_BYTES, '0')), head, content]);
}
