// Runs the calls of one app to a service: limits their number, and counts their memory in the service's budget.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type FairQueue, QueueFull } from '../queues/fair-queue.ts';
import { clientLeft } from '../sockets/client-left.ts';
import { discard } from '../sockets/read-at-most.ts';
import type { Budget, ReservedMemory } from './budget.ts';

export interface SharedBudget {
  /** Id of the app's account. */
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
  /** The error message when the app has more than `atOnce` calls. */
  tooMany: string;
  /** Makes the error for too many calls, or for a full queue. */
  noCapacity: (message: string) => Error;
  /** Answers a failed call. A part of the response may have been sent already. */
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
   * Runs one call. If it fails, answers with `refuse`, unless the client has disconnected.
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
