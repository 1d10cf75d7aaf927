// Explains to a pusher that git has reached its memory limit: git's own words do not name the limit.
import { Transform, type TransformCallback } from 'node:stream';
import { GIT_MEMORY_MB, isOutOfMemory } from './program.ts';

const LENGTH_BYTES = 4;
/** The side band whose text git shows to the pusher. */
const SHOWN_BAND = 2;
const EXPLANATION = `this push has a commit, tag or folder that is too large: git may use ${GIT_MEMORY_MB} MiB of memory\n`;

/** Passes on the packets of a push's answer, and adds a packet with the explanation where git runs out of memory. */
export class ExplainMemory extends Transform {
  /** The beginning of a packet, at most 64 KiB. */
  #rest: Buffer = Buffer.alloc(0);

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let data = Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (data.length - at >= LENGTH_BYTES) {
      // Flushes and delimiters have lengths below 4.
      const length = Math.max(
        LENGTH_BYTES,
        Number.parseInt(data.toString('latin1', at, at + LENGTH_BYTES), 16),
      );
      if (!(data.length - at >= length)) break;
      const isShown = length > LENGTH_BYTES && data[at + LENGTH_BYTES] === SHOWN_BAND;
      const text = isShown ? data.toString('latin1', at + LENGTH_BYTES + 1, at + length) : '';
      at += length;
      if (!isOutOfMemory(text)) continue;
      this.push(data.subarray(0, at));
      this.push(packet(EXPLANATION));
      data = data.subarray(at);
      at = 0;
    }
    this.push(data.subarray(0, at));
    this.#rest = data.subarray(at);
    done();
  }

  override _flush(done: TransformCallback): void {
    this.push(this.#rest);
    done();
  }
}

function packet(text: string): string {
  const length = LENGTH_BYTES + 1 + Buffer.byteLength(text);
  return length.toString(16).padStart(LENGTH_BYTES, '0') + String.fromCharCode(SHOWN_BAND) + text;
}
