// Questions to the thread of telemetry that wait for their answers.
import type { ErrorCode } from '../../handlers/contract/errors.ts';
import type { AskName, Asks } from './protocol.ts';

const DEADLINE_MS = 5_000;
/** Questions that may wait. */
const MOST = 100;

/** The thread could not answer: it is not there, has too much to do, or the question is wrong (`code`). */
export class TelemetryError extends Error {
  /** Null when the thread itself failed. */
  readonly code: ErrorCode | null;
  constructor(code: ErrorCode | null, message: string) {
    super(message);
    this.code = code;
  }
}

interface Pending {
  resolve: (answer: unknown) => void;
  reject: (error: Error) => void;
  deadline: NodeJS.Timeout;
}

export class Questions {
  readonly #pending = new Map<number, Pending>();

  get isFull(): boolean {
    return this.#pending.size >= MOST;
  }

  /** Waits for an answer, for 5 s at most. @throws {TelemetryError} */
  add<Name extends AskName>(id: number, name: Name): Promise<Asks[Name]['answer']> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const late = () => this.refuse(id, { code: null, message: `${name} was not answered in time` });
    this.#pending.set(id, { resolve, reject, deadline: setTimeout(late, DEADLINE_MS).unref() });
    return promise as Promise<Asks[Name]['answer']>;
  }

  answer(id: number, answer: unknown): void {
    this.#settle(id)?.resolve(answer);
  }

  refuse(id: number, { code, message }: Pick<TelemetryError, 'code' | 'message'>): void {
    this.#settle(id)?.reject(new TelemetryError(code, message));
  }

  /** Nobody will answer any of them. */
  refuseAll(message: string): void {
    for (const id of [...this.#pending.keys()]) this.refuse(id, { code: null, message });
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    clearTimeout(pending?.deadline);
    return pending;
  }
}
