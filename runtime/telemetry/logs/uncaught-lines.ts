// Of an exception that nobody catches workerd prints a line of its own. Where the entry has told the same error, with its
// stack and its request, that line says nothing more. Where not, it is all that is known of why a request failed: the app's
// code has ended well then, but its answer is no `Response`, will never come, or breaks off.

import { Recent } from '../store/recent.ts';
import type { ReportedError } from './log-lines.ts';

/** Then comes the message, as in `Uncaught exception: workerd/jsg/value.h:1: failed: remote.jsg.TypeError: no user`. */
const UNCAUGHT = /^Uncaught exception: .*?\bjsg\.(\w+)(?:\((\w+)\))?(?:: |$)/;
/** What workerd says of a thrown object that is no `Error`. */
const THROWN_OBJECT = /^#<.*>$/;
const AN_OBJECT = '#<>';
/** Characters of a message that count. */
const LENGTH = 200;

export class UncaughtLines {
  readonly #told = new Recent<true>();

  /** The entry of an app has told an error. */
  told(appId: string, { type, message }: ReportedError): void {
    // A name that the app has made up stands before the message.
    const named = message === '' ? type : `${type}: ${message}`;
    for (const words of [message, named, ...(type === 'object' ? [AN_OBJECT] : [])])
      this.#told.set(appId, beginningOf(words), true);
  }

  /** Whether a line of workerd's is about an error that the entry of the app has told lately. */
  repeats(appId: string, line: string): boolean {
    const head = UNCAUGHT.exec(line);
    if (head === null) return false;
    const words = line.slice(head[0].length);
    return this.#told.get(appId, THROWN_OBJECT.test(words) ? AN_OBJECT : beginningOf(words)) ?? false;
  }

  forget(appId: string): void {
    this.#told.forget(appId);
  }
}

/** The error that a line of workerd's is about; null when it is about none. */
export function uncaughtError(line: string): ReportedError | null {
  const head = UNCAUGHT.exec(line);
  if (head === null) return null;
  const [{ length }, type, name] = head;
  return {
    id: null,
    type: name ?? type!,
    message: line.slice(length),
    stack: null,
    mechanism: 'uncaught',
    handler: null,
    method: null,
    path: null,
    untold: 0,
  };
}

function beginningOf(message: string): string {
  return message.slice(0, LENGTH).trimEnd();
}
