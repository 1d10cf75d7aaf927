// Lines of apps' logs that have stacks, on their way to their places in the sources. Lines of an app stay in their order: those
// that come after wait with them.
import { setTimeout as sleep } from 'node:timers/promises';
import type { SourceStacks } from '../errors/source-stacks.ts';
import { maxBy } from '../store/max-by.ts';
import { type LogRecord, shownText } from './log-lines.ts';

/** A line waits so long for its places, in ms; and where that was not enough, none of the app's waits for the next so many. */
const WAIT_MS = 5_000;
const GIVEN_UP_MS = 60_000;
/** Lines of an app that wait, and their characters; then they are shown as they are. Those of the app with most are, where all have more. */
const WAITING_LINES = 2_000;
const WAITING_LENGTH = 2 * 1024 * 1024;
const ALL_LENGTH = 16 * 1024 * 1024;
/** Characters that a line is said to have besides its text, with fields that its Worker tells. */
const REST_LENGTH = 500;

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
  readonly #allLength: number;
  /** Of all queues. */
  #length = 0;

  /**
   * @param add is given every line, in the order of its app's
   * @param allLength bound, for tests
   */
  constructor(
    stacks: SourceStacks,
    add: (appId: string, record: LogRecord) => void,
    allLength: number = ALL_LENGTH,
  ) {
    this.#stacks = stacks;
    this.#add = add;
    this.#allLength = allLength;
  }

  take(appId: string, record: LogRecord): void {
    let queue = this.#queues.get(appId);
    if (queue === undefined && (!hasStack(record) || this.#isKnown(appId, record))) {
      this.#add(appId, this.#known(record));
      return;
    }
    queue ??= { records: [], length: 0 };
    queue.records.push(record);
    this.#count(queue, lengthOf(record));
    if (!this.#queues.has(appId)) {
      this.#queues.set(appId, queue);
      void this.#workOff(appId, queue);
    }
    if (queue.records.length > WAITING_LINES || queue.length > WAITING_LENGTH) this.#showAsTheyAre(appId);
    while (this.#length > this.#allLength)
      this.#showAsTheyAre(maxBy(this.#queues, ([, { length }]) => length)![0]);
  }

  /** Shows all that waits. */
  end(): void {
    for (const appId of this.#queues.keys()) this.#showAsTheyAre(appId);
  }

  forget(appId: string): void {
    this.#remove(appId);
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
      this.#count(queue, -lengthOf(record));
      this.#add(appId, this.#known(record));
    }
    this.#queues.delete(appId);
  }

  #showAsTheyAre(appId: string): void {
    for (const record of this.#remove(appId)) this.#add(appId, this.#known(record));
  }

  /** Removes what waits of an app. @returns it */
  #remove(appId: string): LogRecord[] {
    const queue = this.#queues.get(appId);
    if (queue === undefined) return [];
    this.#queues.delete(appId);
    this.#count(queue, -queue.length);
    return queue.records;
  }

  #count(queue: Queue, length: number): void {
    queue.length += length;
    this.#length += length;
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

function lengthOf({ text, tail }: LogRecord): number {
  return REST_LENGTH + text.length + (tail?.values?.length ?? 0);
}

function hasStack({ source, text }: LogRecord): boolean {
  return source === 'app' && STACK.test(text);
}
