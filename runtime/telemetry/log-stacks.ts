// Lines of apps' logs that have stacks, on their way to their places in the sources. Lines of an app stay in their order: those
// that come after wait with them.
import { setTimeout as sleep } from 'node:timers/promises';
import { type LogRecord, shownText } from './log-lines.ts';
import type { SourceStacks } from './source-stacks.ts';

/** A line waits so long for its places, in ms; and where that was not enough, none of the app's waits for the next so many. */
const WAIT_MS = 5_000;
const GIVEN_UP_MS = 60_000;
/** Lines of an app that wait, and their characters: then they are shown as they are. */
const WAITING_LINES = 2_000;
const WAITING_LENGTH = 2 * 1024 * 1024;

const STACK = /\n {4,}at /;

interface Queue {
  records: LogRecord[];
  length: number;
}

export class LogStacks {
  readonly #stacks: SourceStacks;
  readonly #add: (appId: string, record: LogRecord) => void;
  readonly #queues = new Map<string, Queue>();
  readonly #givenUp = new Map<string, number>();

  /** @param add is given every line, in the order of its app's */
  constructor(stacks: SourceStacks, add: (appId: string, record: LogRecord) => void) {
    this.#stacks = stacks;
    this.#add = add;
  }

  take(appId: string, record: LogRecord): void {
    const queue = this.#queues.get(appId);
    if (queue !== undefined) {
      queue.records.push(record);
      queue.length += record.text.length;
      if (queue.records.length > WAITING_LINES || queue.length > WAITING_LENGTH)
        this.#showAsTheyAre(appId, queue);
    } else if (!hasStack(record) || this.#isKnown(appId, record)) this.#add(appId, this.#known(record));
    else {
      const begun = { records: [record], length: record.text.length };
      this.#queues.set(appId, begun);
      void this.#workOff(appId, begun);
    }
  }

  /** Shows all that waits. */
  end(): void {
    for (const [appId, queue] of this.#queues) this.#showAsTheyAre(appId, queue);
  }

  forget(appId: string): void {
    this.#queues.delete(appId);
    this.#givenUp.delete(appId);
  }

  async #workOff(appId: string, queue: Queue): Promise<void> {
    const { records } = queue;
    while (records.length > 0) {
      const record = records[0]!;
      if (hasStack(record) && !this.#isKnown(appId, record)) {
        const found = this.#stacks.find(appId, record.release, record.text).then(() => true);
        const isFound = await Promise.race([found, sleep(WAIT_MS, false, { ref: false })]);
        if (this.#queues.get(appId) !== queue) return;
        if (!isFound) this.#givenUp.set(appId, performance.now() + GIVEN_UP_MS);
      }
      records.shift();
      queue.length -= record.text.length;
      this.#add(appId, this.#known(record));
    }
    this.#queues.delete(appId);
  }

  #showAsTheyAre(appId: string, { records }: Queue): void {
    this.#queues.delete(appId);
    for (const record of records) this.#add(appId, this.#known(record));
  }

  #isKnown(appId: string, { release, text }: LogRecord): boolean {
    const until = this.#givenUp.get(appId);
    if (until !== undefined && until < performance.now()) this.#givenUp.delete(appId);
    return this.#givenUp.has(appId) || this.#stacks.isKnown(release, text);
  }

  /** A record with what is known of its places by now. */
  #known(record: LogRecord): LogRecord {
    if (!hasStack(record)) return record;
    return { ...record, text: shownText(this.#stacks.known(record.release, record.text).text) };
  }
}

function hasStack({ source, text }: LogRecord): boolean {
  return source === 'app' && STACK.test(text);
}
