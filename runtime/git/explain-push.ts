// Explains to a pusher why git refuses a push, where git's own words say neither the limit nor what to do.
import { Transform, type TransformCallback } from 'node:stream';
import { GIT_MEMORY_MB, isOutOfMemory } from './program.ts';

const LENGTH_BYTES = 4;
/** The side bands: what git reads, and the text that it shows to the pusher. */
const REPORT_BAND = 1;
const SHOWN_BAND = 2;
const OUT_OF_MEMORY = `this push has a commit, tag or folder that is too large: git may use ${GIT_MEMORY_MB} MiB of memory\n`;
/** What git says when a branch has moved since the push began, or is being moved. */
const CAME_LATE =
  /^error: cannot lock ref '([^']+)': (?:is at \w+ but expected \w+|reference already exists|Unable to create '[^']*': File exists\.[\s\S]*)$/m;
/** The report of such a branch. Newer versions of git say it here alone. */
const LATE_REPORTS = /^(?:cannot lock ref|failed to update ref|incorrect old value|reference already exists)/;
const FIRST = 'came first; fetch and push again';

/** Passes on the packets of a push's answer. Adds what is missing where git runs out of memory, and plain words where another push came first. */
export class ExplainPush extends Transform {
  /** The beginning of a packet, at most 64 KiB. */
  #rest: Buffer = Buffer.alloc(0);
  /** Refs that another push has moved. */
  readonly #late = new Set<string>();

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const { packets, rest } = split(Buffer.concat([this.#rest, chunk]));
    this.#rest = rest;
    if (packets.length > 0) this.push(Buffer.concat(packets.map((each) => this.#explained(each))));
    done();
  }

  override _flush(done: TransformCallback): void {
    this.push(this.#rest);
    done();
  }

  #explained(whole: Buffer): Buffer {
    const band = whole[LENGTH_BYTES];
    const content = whole.subarray(LENGTH_BYTES + 1);
    if (band === REPORT_BAND && this.#late.size > 0) return packet(band, this.#report(content));
    if (band !== SHOWN_BAND) return whole;
    const text = content.toString('latin1');
    if (isOutOfMemory(text)) return Buffer.concat([whole, packet(band, Buffer.from(OUT_OF_MEMORY))]);
    const [said, ref] = CAME_LATE.exec(text) ?? [];
    if (said === undefined) return whole;
    this.#late.add(ref!);
    const plain = `another push to ${ref!.replace(/^refs\/heads\//, '')} ${FIRST}`;
    return packet(
      band,
      Buffer.from(
        text.replace(said, () => plain),
        'latin1',
      ),
    );
  }

  /** The report has packets of its own: `ok REF`, or `ng REF REASON`. */
  #report(content: Buffer): Buffer {
    const { packets, rest } = split(content);
    const lines = packets.map((line) => {
      const [, ref, why] = /^ng (\S+) (.*)\n?$/.exec(line.toString('latin1', LENGTH_BYTES)) ?? [];
      if (ref === undefined || !this.#late.has(ref) || !LATE_REPORTS.test(why!)) return line;
      return packet(null, Buffer.from(`ng ${ref} another push ${FIRST}\n`, 'latin1'));
    });
    return Buffer.concat([...lines, rest]);
  }
}

/** Splits bytes into whole packets, with their lengths, and the beginning of the next one. */
function split(data: Buffer): { packets: Buffer[]; rest: Buffer } {
  const packets: Buffer[] = [];
  let at = 0;
  while (data.length - at >= LENGTH_BYTES) {
    // Flushes and delimiters have lengths below 4.
    const said = Number.parseInt(data.toString('latin1', at, at + LENGTH_BYTES), 16);
    const length = Math.max(LENGTH_BYTES, said);
    if (!(data.length - at >= length)) break;
    packets.push(data.subarray(at, at + length));
    at += length;
  }
  return { packets, rest: data.subarray(at) };
}

/** @param band null: a packet that is in no side band */
function packet(band: number | null, content: Buffer): Buffer {
  const head = band === null ? Buffer.alloc(0) : Buffer.of(band);
  const length = LENGTH_BYTES + head.length + content.length;
  return Buffer.concat([Buffer.from(length.toString(16).padStart(LENGTH_BYTES, '0')), head, content]);
}
