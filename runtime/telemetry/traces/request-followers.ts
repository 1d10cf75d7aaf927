// Sends an app's finished requests to followers as server-sent events. Stores nothing.
import type { TailedRequest } from '../../../handlers/contract/host/host-calls.ts';
import { eventOf } from '../event-sender.ts';
import { type Listener, Listeners } from '../listeners.ts';
import type { Part, Taken } from '../part.ts';
import type { FollowKind, StreamPiece } from '../protocol.ts';
import type { CountedRequest } from './request-lines.ts';

export class RequestFollowers implements Part {
  readonly name = 'followed requests';
  readonly answers = {};
  readonly dropped = {};
  readonly #followers = new Listeners<Listener>();

  take({ requests }: Taken): void {
    for (const request of requests) {
      const followers = this.#followers.of(request.appId);
      if (followers === null) continue;
      const text = eventOf(tailed(request), null, null);
      for (const { events } of followers) events.send(() => text);
    }
  }

  follow(
    appId: string,
    kind: FollowKind,
    _params: unknown,
    push: (pieces: StreamPiece[]) => void,
  ): (() => void) | undefined {
    if (kind !== 'requests') return undefined;
    return this.#followers.add(appId, { events: this.#followers.sender(appId, push) });
  }

  forget(appId: string): boolean {
    this.#followers.end(appId);
    return false;
  }
}

function tailed({ endedAt, durationMs, traceId, ...request }: CountedRequest): TailedRequest {
  const { method, host, path, status, release, userAgent, refused } = request;
  const at = Math.round(endedAt - durationMs);
  return { at, trace_id: traceId, method, host, path, status, release, user_agent: userAgent, refused };
}
