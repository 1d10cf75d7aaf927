// Hands the lines of a log to a follower, who may read slower than they come, or not at all.
import type { Writable } from 'node:stream';

/** Bytes that wait for a follower. */
const WAITING_BYTES = 256 * 1024;

/**
 * Writes lines to `output` as they come. While more than 256 KiB wait there, lines are left out, which is said once.
 * @returns a function that writes one line, given without its end
 */
export function lineWriter(output: Writable): (line: string) => void {
  let told = false;
  return (line) => {
    if (output.writableLength <= WAITING_BYTES) {
      output.write(`${line}\n`);
    } else if (!told) {
      told = true;
      output.write('… (some lines are not shown here: they come faster than they are read)\n');
    }
  };
}
