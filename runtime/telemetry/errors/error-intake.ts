// Queues the errors of apps on the way to their groups: limits their number and length, and finds their source places.
import { cutText } from '../../../handlers/contract/text.ts';
import type { ReportedError } from '../logs/log-lines.ts';
import { AppAllowances } from '../store/app-allowances.ts';
import { maxBy } from '../store/max-by.ts';
import type { Occurrence } from './error-groups.ts';
import { fingerprintOf } from './fingerprint.ts';
import type { SourceStacks } from './source-stacks.ts';
import type { SourceStack } from './stack.ts';

/**
 * Rate limit of one app's errors, per second. Each process has a lower limit (`error-reporter-worker.js`). So only an app
 * with several processes, or with faked reports, exceeds this one.
 */
const ERRORS_PER_S = 60;
/** Largest burst: what the rate limit allows in this many seconds. */
const SAVED_S = 4;
/** Maximum queued errors of one app. Errors over the limit are only counted. */
const APP_WAITING = 200;
/** Maximum characters of all queued errors. Errors over the limit are only counted. */
const ALL_LENGTH = 8 * 1024 * 1024;
/** Characters that each queued error counts towards `ALL_LENGTH` in addition to its message and stack. */
const REST_LENGTH = 500;
/** Longest message, in characters: an app can report anything. */
const MESSAGE_LENGTH = 4_000;
/** Longest stack, in characters. */
const STACK_LENGTH = 8_000;
const MARK = ' …';

/** An app's error, as reported. */
export interface ErrorReport {
  appId: string;
  /** The deploy whose process reported it; null when unknown. */
  release: string | null;
  /** In ms since 1970. */
  at: number;
  traceId: string | null;
  error: ReportedError;
}

/** One app's queued errors, in the order of their reports. */
interface Queue {
  errors: ErrorReport[];
  length: number;
  /** Resolves when the queue is empty, or was dropped. */
  done: Promise<void>;
}

export interface ErrorIntakeOptions {
  stacks: SourceStacks;
  onOccurrence: (occurrence: Occurrence) => void;
  /** Called with a number of errors of an app that were dropped, so that they are at least counted. */
  onDropped: (appId: string, count: number) => void;
  /** Replaces `ALL_LENGTH`, for tests. */
  allLength?: number | undefined;
}

export class ErrorIntake {
  readonly #options: ErrorIntakeOptions;
  readonly #allowances = new AppAllowances(ERRORS_PER_S, SAVED_S);
  readonly #queues = new Map<string, Queue>();
  #length = 0;

  constructor(options: ErrorIntakeOptions) {
    this.#options = options;
  }

  /**
   * Queues an error, within its app's rate limit. If the app's queue is then too long, its newest error is dropped. If all
   * queues together are too long, the longest one loses its newest errors.
   */
  take(report: ErrorReport): void {
    const { appId } = report;
    if (!this.#allowances.takes(appId)) {
      this.#options.onDropped(appId, 1);
      return;
    }
    const queue = this.#queues.get(appId) ?? { errors: [], length: 0, done: Promise.resolve() };
    queue.errors.push(report);
    this.#count(queue, lengthOf(report));
    if (!this.#queues.has(appId)) {
      this.#queues.set(appId, queue);
      queue.done = this.#workOff(appId, queue);
    }
    if (queue.errors.length > APP_WAITING) this.#dropNewest(appId, queue);
    while (this.#length > (this.#options.allLength ?? ALL_LENGTH)) {
      const [most, its] = maxBy(this.#queues, ([, { length }]) => length)!;
      this.#dropNewest(most, its);
    }
  }

  /** Drops the queue of a deleted app. */
  forget(appId: string): void {
    const queue = this.#queues.get(appId);
    if (queue === undefined) return;
    this.#queues.delete(appId);
    this.#count(queue, -queue.length);
  }

  /** Forgets the rate limits of apps without recent errors. */
  tidy(): void {
    this.#allowances.tidy();
  }

  /** Resolves when all queues are empty. */
  async settled(): Promise<void> {
    await Promise.all([...this.#queues.values()].map(({ done }) => done));
  }

  /** Drops all queues. Reports their errors to `onDropped`. */
  giveUp(): void {
    for (const [appId, { errors }] of this.#queues) {
      this.forget(appId);
      this.#options.onDropped(appId, errors.length);
    }
  }

  async #workOff(appId: string, queue: Queue): Promise<void> {
    for (let report = queue.errors[0]; report !== undefined; report = queue.errors[0]) {
      const stack = report.error.stack && cutText(report.error.stack, STACK_LENGTH, MARK);
      const known = stack === null ? null : await this.#options.stacks.find(appId, report.release, stack);
      // The queue was dropped meanwhile: the app was deleted, or the thread is ending.
      if (this.#queues.get(appId) !== queue) return;
      if (queue.errors[0] !== report) continue;
      queue.errors.shift();
      this.#count(queue, -lengthOf(report));
      this.#options.onOccurrence(occurrenceOf(report, known));
    }
    this.#queues.delete(appId);
  }

  #dropNewest(appId: string, queue: Queue): void {
    this.#count(queue, -lengthOf(queue.errors.pop()!));
    this.#options.onDropped(appId, 1);
  }

  #count(queue: Queue, length: number): void {
    queue.length += length;
    this.#length += length;
  }
}

function lengthOf({ error: { message, stack } }: ErrorReport): number {
  return REST_LENGTH + message.length + (stack?.length ?? 0);
}

/** @param known the error's stack with places in the sources; null without a stack */
function occurrenceOf(
  { appId, release, at, traceId, error }: ErrorReport,
  known: SourceStack | null,
): Occurrence {
  const { id, type: kind, mechanism, handler, method, path } = error;
  const message = cutText(error.message, MESSAGE_LENGTH, MARK);
  return {
    appId,
    at,
    release,
    id,
    kind,
    message,
    fingerprint: fingerprintOf(kind, message, known?.frames ?? []),
    stack: known && cutText(known.text, STACK_LENGTH, MARK),
    place: known?.place ?? null,
    mechanism: mechanism ?? 'uncaught',
    handler,
    method,
    path,
    trace_id: traceId,
  };
}
