// Of an exception that nobody catches workerd prints a line of its own. Where the entry has told the same error, with its
// stack and its request, that line says nothing more.

import type { ReportedError } from './log-lines.ts';

/** Then comes the message, as in `Uncaught exception: workerd/jsg/value.h:1: failed: remote.jsg.TypeError: no user`. */
const UNCAUGHT = /^Uncaught exception: .*?\bjsg\.\w+(?:\(\w+\))?(?:: |$)/;
/** Messages of all apps that are remembered, and the characters of each that count. */
const REMEMBERED = 2_000;
const LENGTH = 200;

export class UncaughtLines {
  readonly #told = new Set<string>();

  /** The entry of an app has told an error. */
  told(appId: string, { type, message }: ReportedError): void {
    // A name that the app has made up stands before the message.
    for (const words of [message, message === '' ? type : `${type}: ${message}`]) {
      const key = keyOf(appId, words);
      this.#told.delete(key);
      this.#told.add(key);
    }
    while (this.#told.size > REMEMBERED) this.#told.delete(this.#told.keys().next().value!);
  }

  /** Whether a line of workerd's is about an error that the entry of the app has told lately. */
  repeats(appId: string, line: string): boolean {
    const head = UNCAUGHT.exec(line);
    return head !== null && this.#told.has(keyOf(appId, line.slice(head[0].length)));
  }
}

function keyOf(appId: string, message: string): string {
  return `${appId} ${message.slice(0, LENGTH).trimEnd()}`;
}
