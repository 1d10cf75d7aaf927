// Questions to the thread of telemetry that wait for their answers.
import type { ErrorCode } from '../../handlers/contract/errors.ts';
import type { AskName, Asks } from './protocol.ts';

const DEADLINE_MS = 5_000;
/** Questions that may wait, and those about one app: whoever asks about one keeps nobody from asking about others. */
const MOST = 100;
const MOST_OF_APP = 20;

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
  /** The app that it is about; null: more than one. */
  appId: string | null;
  resolve: (answer: unknown) => void;
  reject: (error: Error) => void;
  deadline: NodeJS.Timeout;
}

export class Questions {
  readonly #pending = new Map<number, Pending>();

  /** Whether no more may wait about an app. */
  isFull(appId: string | null): boolean {
    if (this.#pending.size >= MOST) return true;
    if (appId === null || this.#pending.size < MOST_OF_APP) return false;
    return [...this.#pending.values()].filter((each) => each.appId === appId).length >= MOST_OF_APP;
  }

  /** Waits for an answer, for 5 s at most. @throws {TelemetryError} */
  add<Name extends AskName>(id: number, name: Name, appId: string | null): Promise<Asks[Name]['answer']> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const late = () => this.refuse(id, { code: null, message: `${name} was not answered in time` });
    this.#pending.set(id, { appId, resolve, reject, deadline: setTimeout(late, DEADLINE_MS).unref() });
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
