// One part of the thread's work: metrics, spans, logs, errors. Each has its own tables and queries.
import type { ErrorCode } from '../../handlers/contract/errors.ts';
import type { AskName, Asks, Batch, FollowKind } from './protocol.ts';
import type { CountedRequest } from './traces/request-lines.ts';

/** A batch with parsed requests. */
export type Taken = Omit<Batch, 'requests'> & { requests: readonly CountedRequest[] };

/** Handlers by query name. An exception fails that query. */
export type Answers = {
  [Name in AskName]?: (params: Asks[Name]['params']) => Asks[Name]['answer'] | Promise<Asks[Name]['answer']>;
};

/** Synchronous handlers for the queries `Name`. */
export type Immediate<Name extends AskName> = {
  [N in Name]: (params: Asks[N]['params']) => Asks[N]['answer'];
};

/** All calls are made one after another on the telemetry thread. An exception affects no other part. */
export interface Part {
  /** Begins the part's error messages. */
  readonly name: string;
  readonly answers: Answers;
  /** Number of items dropped since the start, by kind. */
  readonly dropped: Readonly<Record<string, number>>;
  /** Takes a batch from the host. */
  take?(taken: Taken): void;
  /** Writes the taken items. Called about every second after a batch has arrived or a write has failed. */
  flush?(): void;
  /** Removes a small batch of old or excess data. Called every few seconds. @returns whether more is left */
  prune?(now: number): boolean;
  /** Removes a small batch of an app's data. @returns whether more is left */
  forget(appId: string): boolean;
  /** Ends the part's own work. The thread is ended even if this has not resolved in time. */
  close?(): Promise<void>;
  /** Every app with stored data. */
  apps?(): string[];
  /** Pushes an app's new items until the returned function is called. @returns undefined for items of another part */
  follow?(
    appId: string,
    kind: FollowKind,
    params: unknown,
    push: (items: unknown[]) => void,
  ): (() => void) | undefined;
}

/** A query that cannot be answered. */
export class AskRefusal extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
