// A client that follows an app's error groups of one status, as server-sent events.
import type { GroupedError } from '../../../handlers/contract/telemetry/grouped-errors.ts';
import type { GroupStatus } from '../../../sqlite/telemetry/errors.ts';
import { type EventSender, eventOf } from '../event-sender.ts';

/** What a client wants to follow. */
export interface ErrorFollow {
  status: GroupStatus;
  /** The number of the last change that the client has seen; null: it wants only new changes. */
  after: number | null;
  /** Method of the JSON-RPC notifications that are sent as events; null: events have only the group. */
  rpcMethod: string | null;
}

export class ErrorListener {
  readonly events: EventSender;
  readonly #follow: ErrorFollow;

  constructor(follow: ErrorFollow, events: EventSender) {
    this.#follow = follow;
    this.events = events;
  }

  get status(): GroupStatus {
    return this.#follow.status;
  }

  /** Sends a group as it is after a change. */
  take(change: number, group: GroupedError): void {
    this.events.send(() => eventOf(group, change, this.#follow.rpcMethod), change);
  }
}
