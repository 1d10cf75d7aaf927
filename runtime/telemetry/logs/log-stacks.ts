// Queues log lines with stacks until their source places are found. Later lines of the app wait too, so that the app's lines
// stay in order.
import { setTimeout as sleep } from 'node:timers/promises';
import type { SourceStacks } from '../errors/source-stacks.ts';
import { maxBy } from '../store/max-by.ts';
import { type LogRecord, shownText } from './log-lines.ts';

/** Time limit to find a line's source places, in ms. */
const WAIT_MS = 5_000;
/** After a timeout, the app's lines do not wait for their source places during this time, in ms. */
const GIVEN_UP_MS = 60_000;
/** Maximum lines in an app's queue. A longer queue is flushed, and its unknown places stay unmapped. */
const WAITING_LINES = 2_000;
/** Maximum characters in an app's queue. A longer queue is flushed, and its unknown places stay unmapped. */
const WAITING_LENGTH = 2 * 1024 * 1024;
/** Maximum characters in all queues. Over this limit, the longest queues are flushed. */
const ALL_LENGTH = 16 * 1024 * 1024;
/** Characters counted for a line in addition to its text and printed values. */
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
  /** Characters in all queues. */
  #length = 0;

  /**
   * @param add called with every line, in order for each app
   * @param allLength limit, for tests
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
      void this.#drain(appId, queue);
    }
    if (queue.records.length > WAITING_LINES || queue.length > WAITING_LENGTH) this.#flush(appId);
    while (this.#length > this.#allLength) this.#flush(maxBy(this.#queues, ([, { length }]) => length)![0]);
  }

  /** Flushes all queues. */
  end(): void {
    for (const appId of this.#queues.keys()) this.#flush(appId);
  }

  forget(appId: string): void {
    this.#remove(appId);
    this.#givenUp.delete(appId);
  }

  async #drain(appId: string, queue: Queue): Promise<void> {
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

  #flush(appId: string): void {
    for (const record of this.#remove(appId)) this.#add(appId, this.#known(record));
  }

  /** Removes and returns an app's queue. */
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

  /** Returns a record whose stack has the cached source places. */
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
