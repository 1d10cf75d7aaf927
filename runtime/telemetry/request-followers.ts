// Those who follow an app's requests as they end, as server-sent events. Nothing of it is kept.
import type { TailedRequest } from '../../handlers/contract/host-calls.ts';
import { Listeners } from './listeners.ts';
import type { Part, Taken } from './part.ts';
import type { FollowKind, StreamPiece } from './protocol.ts';
import type { CountedRequest } from './request-lines.ts';

/** Requests of an app that are told at once; what is more is left out. */
const AT_ONCE = 200;

interface Follower {
  push: (pieces: StreamPiece[]) => void;
  end: () => void;
}

export class RequestFollowers implements Part {
  readonly name = 'followed requests';
  readonly answers = {};
  readonly dropped = {};
  readonly #followers = new Listeners<Follower>();

  take({ requests }: Taken): void {
    const told = new Map<ReadonlySet<Follower>, StreamPiece>();
    for (const request of requests) {
      const followers = this.#followers.of(request.appId);
      if (followers === null) continue;
      const piece = told.get(followers) ?? { text: '', events: 0, lastId: null, isLast: false };
      told.set(followers, piece);
      if (piece.events === AT_ONCE) continue;
      piece.text += `data: ${JSON.stringify(tailed(request))}\n\n`;
      piece.events++;
    }
    for (const [followers, piece] of told) for (const { push } of followers) push([piece]);
  }

  follow(
    appId: string,
    kind: FollowKind,
    _params: unknown,
    push: (pieces: StreamPiece[]) => void,
  ): (() => void) | undefined {
    if (kind !== 'requests') return undefined;
    const end = () => push([{ text: '', events: 0, lastId: null, isLast: true }]);
    return this.#followers.add(appId, { push, end });
  }

  flush(): void {}

  prune(): boolean {
    return false;
  }

  forget(appId: string): boolean {
    this.#followers.end(appId);
    return false;
  }

  apps(): string[] {
    return [];
  }
}

function tailed({ endedAt, durationMs, traceId, ...request }: CountedRequest): TailedRequest {
  const { method, host, path, status, release, userAgent } = request;
  const at = Math.round(endedAt - durationMs);
  return { at, trace_id: traceId, method, host, path, status, release, user_agent: userAgent };
}
