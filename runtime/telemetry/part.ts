// One part of what the thread does: metrics, spans, logs, errors. Each has its own tables and its own answers.
import type { ErrorCode } from '../../handlers/contract/errors.ts';
import type { AskName, Asks, Batch, FollowKind } from './protocol.ts';
import type { CountedRequest } from './traces/request-lines.ts';

/** A batch whose requests have been read. */
export type Taken = Omit<Batch, 'requests'> & { requests: readonly CountedRequest[] };

/** Answers by the name of the question. What is thrown is the question's failure. */
export type Answers = {
  [Name in AskName]?: (params: Asks[Name]['params']) => Asks[Name]['answer'] | Promise<Asks[Name]['answer']>;
};

/** The same of a part that answers all of these, at once. */
export type Immediate<Name extends AskName> = {
  [N in Name]: (params: Asks[N]['params']) => Asks[N]['answer'];
};

/** All calls are made one after another on the telemetry's thread. One that throws harms no other part. */
export interface Part {
  /** For messages. */
  readonly name: string;
  readonly answers: Answers;
  /** What it dropped since the start, by what it was. */
  readonly dropped: Readonly<Record<string, number>>;
  /** Takes what the host has handed over. */
  take(taken: Taken): void;
  /** Writes what was taken. Called about every second; what could not be written is tried again at the next call. */
  flush(): void;
  /** Removes a small piece of what is too old or too much. Called every few seconds. @returns whether more is left */
  prune(now: number): boolean;
  /** Removes a small piece of what is kept of an app. @returns whether more is left */
  forget(appId: string): boolean;
  /** Ends what the part does by itself. What takes longer than the thread has for its end is given up. */
  close?(): Promise<void>;
  /** Every app of which it keeps something. */
  apps(): string[];
  /** Pushes what is new of an app from now on, until the function that it returns is called. */
  follow?(
    appId: string,
    kind: FollowKind,
    params: unknown,
    push: (items: unknown[]) => void,
  ): (() => void) | undefined;
}

/** A question that cannot be answered. */
export class AskRefusal extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
