// Errors that a Worker's entry tells, found in output that is dropped otherwise: an app that prints far too much is an app
// whose errors matter. Looking for one text costs a fraction of what counting the dropped lines costs.

import { Allowance } from '../../resources/allowance.ts';

/** How workerd's log has the beginning of what the entry prints with an error (`telling-worker.js`). */
const TOLD = Buffer.from(',"message":"\\u001ecellar {\\"error\\":');
/** Bytes of a line that may come before that: when it was printed, and its level. */
const HEAD_BYTES = 100;
/** Bytes of such lines that are passed on in a second, and how many seconds' worth of them can be saved up. */
const BYTES_PER_S = 64 * 1024;
const SAVED_S = 4;
const NEWLINE = 0x0a;

/** A whole line in a piece of output. */
interface ToldLine {
  /** Where it begins: at the end of the line before it, so that whoever skips that one knows where it ends. */
  from: number;
  /** Behind its own end. */
  to: number;
}

export class ReportedErrors {
  readonly #allowance = new Allowance(BYTES_PER_S, SAVED_S);

  /** The lines in a piece that tell an error, as many as the app may still have; not one that is cut by the piece's ends. */
  in(piece: Buffer): ToldLine[] {
    const lines: ToldLine[] = [];
    for (let at = 0; this.#allowance.left() > 0; ) {
      const told = piece.indexOf(TOLD, at);
      if (told === -1) break;
      at = told + TOLD.length;
      // Also where nothing comes of it: looking at it is work, too.
      this.#allowance.use(HEAD_BYTES);
      const begin = Math.max(0, told - HEAD_BYTES);
      const from = piece.subarray(begin, told).lastIndexOf(NEWLINE);
      if (from === -1) continue;
      const end = piece.indexOf(NEWLINE, at);
      if (end === -1) break;
      at = end;
      lines.push({ from: begin + from, to: end + 1 });
      this.#allowance.use(end - told);
    }
    return lines;
  }
}
