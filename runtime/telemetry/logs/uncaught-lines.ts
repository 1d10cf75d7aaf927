// Parses the lines that workerd prints for uncaught exceptions. A line is a duplicate if Cellar's code in the Worker
// has reported the error: that report has the stack and the request. Otherwise the line is the only sign of a failed
// request. Then the app's code threw nothing, but its response is not a `Response`, never comes, or breaks off.

import { Recent } from '../store/recent.ts';
import type { ReportedError } from './log-lines.ts';

/** Matches up to the message in `Uncaught exception: workerd/jsg/value.h:1: failed: remote.jsg.TypeError: no user`. */
const UNCAUGHT = /^Uncaught exception: .*?\bjsg\.(\w+)(?:\((\w+)\))?(?:: |$)/;
/** Matches workerd's text for a thrown object that is not an `Error`. */
const THROWN_OBJECT = /^#<.*>$/;
const AN_OBJECT = '#<>';
/** Only this many characters of a message are compared. */
const LENGTH = 200;

export class UncaughtLines {
  readonly #reported = new Recent<true>();

  /** Remembers an error that Cellar's code in an app's Worker has reported. */
  add(appId: string, { type, message }: ReportedError): void {
    // In workerd's line, a custom error name precedes the message.
    const named = message === '' ? type : `${type}: ${message}`;
    for (const words of [message, named, ...(type === 'object' ? [AN_OBJECT] : [])])
      this.#reported.set(appId, beginningOf(words), true);
  }

  /** Whether a line of workerd repeats an error that Cellar's code in the app's Worker has reported recently. */
  repeats(appId: string, line: string): boolean {
    const head = UNCAUGHT.exec(line);
    if (head === null) return false;
    const words = line.slice(head[0].length);
    return this.#reported.get(appId, THROWN_OBJECT.test(words) ? AN_OBJECT : beginningOf(words)) ?? false;
  }

  forget(appId: string): void {
    this.#reported.forget(appId);
  }
}

/** Returns the uncaught exception in a line of workerd; null for any other line. */
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
