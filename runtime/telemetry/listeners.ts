// Those who follow something of apps, by app.
import { EventSender } from './event-sender.ts';
import type { StreamPiece } from './protocol.ts';

/** One who follows an app, by what sends the events to it. */
export interface Listener {
  readonly events: EventSender;
}

export class Listeners<Kind extends Listener> {
  readonly #byApp = new Map<string, Set<Kind>>();

  /** What sends events to one who is to follow an app. */
  sender(appId: string, push: (pieces: StreamPiece[]) => void): EventSender {
    return new EventSender(push, () => this.of(appId)?.size ?? 1);
  }

  /** @returns what takes it away again */
  add(appId: string, listener: Kind): () => void {
    const listeners = this.#byApp.get(appId) ?? new Set();
    this.#byApp.set(appId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#byApp.get(appId) === listeners) this.#byApp.delete(appId);
    };
  }

  /** Those of an app; null when there are none. */
  of(appId: string): ReadonlySet<Kind> | null {
    return this.#byApp.get(appId) ?? null;
  }

  /** Ends those of an app, which is gone. */
  end(appId: string): void {
    for (const { events } of this.#byApp.get(appId) ?? []) events.end();
    this.#byApp.delete(appId);
  }
}
