// The calls of one app at a service for apps: counted, and each with memory of the service's budget.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type FairQueue, QueueFull } from '../queues/fair-queue.ts';
import { clientLeft } from '../sockets/client-left.ts';
import { discard } from '../sockets/read-at-most.ts';
import type { Budget, ReservedMemory } from './budget.ts';

/** The app's account, and the memory that all apps share. */
export interface SharedBudget {
  /** The app's account. */
  owner: string;
  budget: Budget;
}

/** Budget and queue that all apps share, and the account of this app. */
export interface Shared extends SharedBudget {
  queue: FairQueue;
}

export interface CallRules {
  /** Maximum concurrent calls of the app. */
  atOnce: number;
  /** The error message for an app with more calls. */
  tooMany: string;
  /** Makes the error of a call for which there is no place. */
  noCapacity: (message: string) => Error;
  /** Answers a failed call. Nothing may have been sent yet, or a part of the response. */
  refuse: (response: ServerResponse, error: unknown) => void;
}

export class AppCalls {
  readonly #rules: CallRules;
  readonly #shared: SharedBudget;
  #underway = 0;

  constructor(shared: SharedBudget, rules: CallRules) {
    this.#shared = shared;
    this.#rules = rules;
  }

  /**
   * Runs one call. A failed one is refused, unless its client has disconnected.
   * @param call answers the request; `left` aborts when the client disconnects
   */
  async run(
    request: IncomingMessage,
    response: ServerResponse,
    call: (held: ReservedMemory, left: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const { atOnce, tooMany, noCapacity, refuse } = this.#rules;
    const left = clientLeft(response);
    const held = this.#shared.budget.begin(this.#shared.owner);
    this.#underway++;
    try {
      if (this.#underway > atOnce) throw noCapacity(tooMany);
      await call(held, left);
    } catch (error) {
      await discard(request);
      if (!left.aborted) refuse(response, error instanceof QueueFull ? noCapacity(error.message) : error);
    } finally {
      this.#underway--;
      held.giveAll();
    }
  }
}
