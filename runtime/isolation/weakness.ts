// Warns in one line that a part of the isolation is missing, and where the docs say more.
import { log } from '../log.ts';

/** Maximum characters of a reason: some name a path for each part. */
const WHY_LENGTH = 160;

/** @param what the missing part @param why one or more reasons @param see a page of the docs, with its section */
export function warnOfWeakness(what: string, why: string, see: string): void {
  log('warn', `${what}: deploy only code you trust`, { see, why: short(why) });
}

/** Returns the beginning of a reason, in one line. */
export function short(why: string): string {
  const line = why.replace(/\s+/g, ' ');
  return line.length <= WHY_LENGTH ? line : `${line.slice(0, WHY_LENGTH - 1)}…`;
}
