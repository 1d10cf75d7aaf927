// The clients that follow apps, by app.
import { EventSender } from './event-sender.ts';
import type { StreamPiece } from './protocol.ts';

/** A client that follows an app. */
export interface Listener {
  readonly events: EventSender;
}

export class Listeners<Kind extends Listener> {
  readonly #byApp = new Map<string, Set<Kind>>();

  /** Returns an event sender for a new follower of an app. */
  sender(appId: string, push: (pieces: StreamPiece[]) => void): EventSender {
    return new EventSender(push, () => this.of(appId)?.size ?? 1);
  }

  /** @returns a function that removes the listener */
  add(appId: string, listener: Kind): () => void {
    const listeners = this.#byApp.get(appId) ?? new Set();
    this.#byApp.set(appId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#byApp.get(appId) === listeners) this.#byApp.delete(appId);
    };
  }

  /** Returns an app's followers; null for none. */
  of(appId: string): ReadonlySet<Kind> | null {
    return this.#byApp.get(appId) ?? null;
  }

  /** Ends the streams of a deleted app's followers, and removes the followers. */
  end(appId: string): void {
    for (const { events } of this.#byApp.get(appId) ?? []) events.end();
    this.#byApp.delete(appId);
  }
}
