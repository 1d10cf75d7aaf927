// Warns in one line that a part of the isolation is missing, with the page that says more.
import { log } from '../log.ts';

/** Most characters of a reason: some have a path for each part. */
const WHY_LENGTH = 160;

/** @param what that part @param why the reason, or several @param see a page of the docs with its section */
export function warnOfWeakness(what: string, why: string, see: string): void {
  log('warn', `${what}: deploy only code you trust`, { see, why: short(why) });
}

/** Returns the beginning of a reason, in one line. */
export function short(why: string): string {
  const line = why.replace(/\s+/g, ' ');
  return line.length <= WHY_LENGTH ? line : `${line.slice(0, WHY_LENGTH - 1)}…`;
}
