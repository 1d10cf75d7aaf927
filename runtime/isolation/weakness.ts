// Logs a warning that a part of the isolation is missing, with the section of the docs about it.
import { log } from '../log.ts';

/** Maximum characters of a reason: some reasons list several paths. */
const WHY_LENGTH = 160;

/** Logs that only trusted code is safe. @param what untrusted code can do @param see a page of the docs, with its section */
export function warnOfWeakness(what: string, why: string, see: string): void {
  log('warn', `${what}: deploy only code you trust`, { see, why: short(why) });
}

/** Returns at most `WHY_LENGTH` characters of a reason, in one line. */
export function short(why: string): string {
  const line = why.replace(/\s+/g, ' ');
  return line.length <= WHY_LENGTH ? line : `${line.slice(0, WHY_LENGTH - 1)}…`;
}
