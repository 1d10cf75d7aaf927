// Errors on their way from the app to their groups: bounded in number and length, with their places in the sources.
import { cutText } from '../../../handlers/contract/text.ts';
import type { ReportedError } from '../logs/log-lines.ts';
import { AppAllowances } from '../store/app-allowances.ts';
import { maxBy } from '../store/max-by.ts';
import type { Occurrence } from './error-groups.ts';
import { fingerprintOf } from './fingerprint.ts';
import type { SourceStacks } from './source-stacks.ts';
import type { SourceStack } from './stack.ts';

/**
 * Errors of one app that are taken in a second, and how many seconds' worth can be saved up. Its process tells some fewer
 * (`telling-worker.js`): who tells more makes them up.
 */
const ERRORS_PER_S = 60;
const SAVED_S = 4;
/** Errors of one app that wait, and the characters of those of all apps; of more only the number is kept. */
const APP_WAITING = 200;
const ALL_LENGTH = 8 * 1024 * 1024;
/** Characters that an error is said to have besides its message and stack. */
const REST_LENGTH = 500;
/** Characters of a message and a stack: an app says what it likes. */
const MESSAGE_LENGTH = 4_000;
const STACK_LENGTH = 8_000;
const MARK = ' …';

/** An error of an app, as it was told. */
export interface ToldError {
  appId: string;
  /** The deploy whose process told it; null when it is not known. */
  release: string | null;
  /** In ms since 1970. */
  at: number;
  traceId: string | null;
  error: ReportedError;
}

/** Errors of one app that wait, in the order in which they were told. */
interface Queue {
  errors: ToldError[];
  length: number;
  /** Resolves when nothing waits in it any more. */
  done: Promise<void>;
}

export interface ErrorIntakeOptions {
  stacks: SourceStacks;
  onOccurrence: (occurrence: Occurrence) => void;
  /** Is told of errors of an app of which nothing is known but that they were. */
  onDropped: (appId: string, count: number) => void;
  /** Bound, for tests. */
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

  /** Takes an error, if its app has not told too many. Where too much waits, the app that has most of it loses its newest. */
  take(told: ToldError): void {
    const { appId } = told;
    if (!this.#allowances.takes(appId)) {
      this.#options.onDropped(appId, 1);
      return;
    }
    const queue = this.#queues.get(appId) ?? { errors: [], length: 0, done: Promise.resolve() };
    queue.errors.push(told);
    this.#count(queue, lengthOf(told));
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

  /** Drops what waits of an app that was deleted. */
  forget(appId: string): void {
    const queue = this.#queues.get(appId);
    if (queue === undefined) return;
    this.#queues.delete(appId);
    this.#count(queue, -queue.length);
  }

  /** Forgets what is known of apps that have told nothing for a while. */
  tidy(): void {
    this.#allowances.tidy();
  }

  /** Resolves when nothing waits any more. */
  async settled(): Promise<void> {
    await Promise.all([...this.#queues.values()].map(({ done }) => done));
  }

  /** Drops all that waits. */
  giveUp(): void {
    for (const [appId, { errors }] of this.#queues) {
      this.forget(appId);
      this.#options.onDropped(appId, errors.length);
    }
  }

  async #workOff(appId: string, queue: Queue): Promise<void> {
    for (let told = queue.errors[0]; told !== undefined; told = queue.errors[0]) {
      const stack = told.error.stack && cutText(told.error.stack, STACK_LENGTH, MARK);
      const known = stack === null ? null : await this.#options.stacks.find(appId, told.release, stack);
      // The app was deleted meanwhile, or has made room for others.
      if (this.#queues.get(appId) !== queue) return;
      if (queue.errors[0] !== told) continue;
      queue.errors.shift();
      this.#count(queue, -lengthOf(told));
      this.#options.onOccurrence(occurrenceOf(told, known));
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

function lengthOf({ error: { message, stack } }: ToldError): number {
  return REST_LENGTH + message.length + (stack?.length ?? 0);
}

/** @param known its stack with the places in the sources; null when it has none */
function occurrenceOf(
  { appId, release, at, traceId, error }: ToldError,
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
