// Errors on their way from the app to their groups: bounded in number and length, with their places in the sources.
import { cutText } from '../../handlers/contract/text.ts';
import type { Occurrence } from './error-groups.ts';
import { fingerprintOf } from './fingerprint.ts';
import type { ReportedError } from './log-lines.ts';
import type { SourceStacks } from './source-stacks.ts';

/** Errors of one app that wait; of more only the number is kept. */
const WAITING = 200;
/** Characters of a message and a stack: an app says what it likes. */
const MESSAGE_LENGTH = 4_000;
const STACK_LENGTH = 8_000;
const MARK = ' …';

export class ErrorIntake {
  readonly #stacks: SourceStacks;
  readonly #onOccurrence: (occurrence: Occurrence) => void;
  readonly #onDropped: (appId: string, count: number) => void;
  /** What waits for its places, one error of an app after another. */
  readonly #queues = new Map<string, { waiting: number; last: Promise<void> }>();

  /** @param onDropped is told of errors of an app of which nothing is known but that they were */
  constructor(
    stacks: SourceStacks,
    onOccurrence: (occurrence: Occurrence) => void,
    onDropped: (appId: string, count: number) => void,
  ) {
    this.#stacks = stacks;
    this.#onOccurrence = onOccurrence;
    this.#onDropped = onDropped;
  }

  /** Takes an error. Resolves when its places were looked up, or it was dropped; never rejects. */
  take(
    appId: string,
    release: string | null,
    at: number,
    traceId: string | null,
    error: ReportedError,
  ): Promise<void> {
    if (error.untold > 0) this.#onDropped(appId, error.untold);
    const queue = this.#queues.get(appId) ?? { waiting: 0, last: Promise.resolve() };
    if (queue.waiting >= WAITING) {
      this.#onDropped(appId, 1);
      return Promise.resolve();
    }
    this.#queues.set(appId, queue);
    queue.waiting++;
    queue.last = queue.last
      .then(async () => {
        const occurrence = await this.#occurrence(appId, release, at, traceId, error);
        // The app was deleted meanwhile.
        if (this.#queues.get(appId) !== queue) return;
        this.#onOccurrence(occurrence);
      })
      .finally(() => {
        if (--queue.waiting === 0 && this.#queues.get(appId) === queue) this.#queues.delete(appId);
      });
    return queue.last;
  }

  /** Drops what waits of an app that was deleted. */
  forget(appId: string): void {
    this.#queues.delete(appId);
  }

  /** Resolves when nothing waits any more. */
  async settled(): Promise<void> {
    await Promise.all([...this.#queues.values()].map(({ last }) => last));
  }

  async #occurrence(
    appId: string,
    release: string | null,
    at: number,
    traceId: string | null,
    error: ReportedError,
  ): Promise<Occurrence> {
    const { id, type: kind, stack, mechanism, handler, method, path } = error;
    const message = cutText(error.message, MESSAGE_LENGTH, MARK);
    const known =
      stack === null ? null : await this.#stacks.find(appId, release, cutText(stack, STACK_LENGTH, MARK));
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
}
