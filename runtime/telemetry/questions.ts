// Pending queries to the telemetry thread.
import type { ErrorCode } from '../../handlers/contract/errors.ts';
import type { AskName, Asks } from './protocol.ts';

const DEADLINE_MS = 5_000;
/** Maximum pending queries. */
const MOST = 100;
/** Maximum pending queries about one app, so that one app does not block others. */
const MOST_OF_APP = 20;

/** A failed query: the thread is not running, failed or is overloaded, or the query is invalid. */
export class TelemetryError extends Error {
  /** Says why the query is invalid; null for all other failures. */
  readonly code: ErrorCode | null;
  constructor(code: ErrorCode | null, message: string) {
    super(message);
    this.code = code;
  }
}

interface Pending {
  /** The app that the query is about; null when it is not about one app. */
  appId: string | null;
  resolve: (answer: unknown) => void;
  reject: (error: Error) => void;
  deadline: NodeJS.Timeout;
}

export class Questions {
  readonly #pending = new Map<number, Pending>();

  /** Whether the limit of all pending queries, or of those about this app, is reached. */
  isFull(appId: string | null): boolean {
    if (this.#pending.size >= MOST) return true;
    if (appId === null || this.#pending.size < MOST_OF_APP) return false;
    return [...this.#pending.values()].filter((each) => each.appId === appId).length >= MOST_OF_APP;
  }

  /** Waits for an answer, with a timeout of 5 s. @throws {TelemetryError} on a timeout or refusal */
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

  /** Rejects all pending queries. */
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
