// Finds the error reports of Cellar's entry module in output that is otherwise dropped, so that an app that floods its log
// does not lose its errors. Searching for one text costs a fraction of counting the dropped lines.

import { Allowance } from '../../resources/allowance.ts';

/** The start of an error report in workerd's log; `error-reporter-worker.js` prints it. */
const REPORT_START = Buffer.from(',"message":"\\u001ecellar {\\"error\\":');
/** Maximum length of the text before `REPORT_START` in its line (time and level), in bytes. */
const HEAD_BYTES = 100;
/** Rate limit of forwarded reports, in bytes a second. */
const BYTES_PER_S = 64 * 1024;
/** The largest burst, in seconds of `BYTES_PER_S`. */
const SAVED_S = 4;
const NEWLINE = 0x0a;

/** A whole line in a chunk of output. */
interface ReportLine {
  /**
   * Offset of the newline before the line. It is included, so that a reader that skips the previous line finds the newline.
   */
  from: number;
  /** Exclusive end: the offset after the line's own newline. */
  to: number;
}

export class ReportedErrors {
  readonly #allowance = new Allowance(BYTES_PER_S, SAVED_S);

  /** Returns the complete error reports in a chunk of output, within the rate limit. */
  in(piece: Buffer): ReportLine[] {
    const lines: ReportLine[] = [];
    for (let at = 0; this.#allowance.left() > 0; ) {
      const start = piece.indexOf(REPORT_START, at);
      if (start === -1) break;
      at = start + REPORT_START.length;
      // Counts even for an incomplete line, because the search itself costs CPU time.
      this.#allowance.use(HEAD_BYTES);
      const begin = Math.max(0, start - HEAD_BYTES);
      const from = piece.subarray(begin, start).lastIndexOf(NEWLINE);
      if (from === -1) continue;
      const end = piece.indexOf(NEWLINE, at);
      if (end === -1) break;
      at = end;
      lines.push({ from: begin + from, to: end + 1 });
      this.#allowance.use(end - start);
    }
    return lines;
  }
}
