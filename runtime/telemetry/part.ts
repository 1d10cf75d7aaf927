// One part of the telemetry thread's work, such as metrics, spans, logs or errors. Most parts have their own database.
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

/** All methods are called on the telemetry thread. An exception affects no other part. */
export interface Part {
  /** Prefix of the part's error messages. */
  readonly name: string;
  readonly answers: Answers;
  /** Number of items dropped since the start, by kind. */
  readonly dropped: Readonly<Record<string, number>>;
  /** Takes a batch from the host. */
  take?(taken: Taken): void;
  /** Writes the taken items. Called about every second after a batch has arrived or a write has failed. */
  flush?(): void;
  /** Removes a small batch of old or excess data. Called every ten seconds, or sooner. @returns whether more may be left */
  prune?(now: number): boolean;
  /** Removes a small batch of a deleted app's data. @returns whether more may be left */
  forget(appId: string): boolean;
  /** Finishes pending work before the thread ends. After two seconds, the thread is ended even if work is left. */
  close?(): Promise<void>;
  /** Returns the ids of all apps with data. */
  apps?(): string[];
  /** Pushes an app's new items until the returned function is called. @returns undefined for a kind of another part */
  follow?(
    appId: string,
    kind: FollowKind,
    params: unknown,
    push: (items: unknown[]) => void,
  ): (() => void) | undefined;
}

/** Refuses a query, with an error code for the caller. */
export class AskRefusal extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
