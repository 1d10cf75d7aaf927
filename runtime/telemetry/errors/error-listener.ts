// Somebody who follows an app's grouped errors in a status, as server-sent events.
import type { GroupedError } from '../../../handlers/contract/telemetry/grouped-errors.ts';
import type { GroupStatus } from '../../../sqlite/telemetry/errors.ts';
import { type EventSender, eventOf } from '../event-sender.ts';

/** What a listener asks for. */
export interface ErrorFollow {
  status: GroupStatus;
  /** The last change that it has seen; null: only what comes from now on. */
  after: number | null;
  /** Over RPC each event is a notification of this method. */
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

  /** Shows it a group as it is after a change. */
  take(change: number, group: GroupedError): void {
    this.events.send(() => eventOf(group, change, this.#follow.rpcMethod), change);
  }
}
