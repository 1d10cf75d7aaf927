// Somebody who follows an app's grouped errors in a status, as server-sent events.
import type { GroupedError } from '../../handlers/contract/telemetry.ts';
import type { GroupStatus } from '../../sqlite/telemetry/errors.ts';
import type { StreamPiece } from './protocol.ts';

/** What a listener asks for. */
export interface ErrorFollow {
  status: GroupStatus;
  /** The last change that it has seen; null: only what comes from now on. */
  after: number | null;
  /** Over RPC each event is a notification of this method. */
  rpcMethod: string | null;
}

export class ErrorListener {
  readonly #follow: ErrorFollow;
  readonly #push: (pieces: StreamPiece[]) => void;

  constructor(follow: ErrorFollow, push: (pieces: StreamPiece[]) => void) {
    this.#follow = follow;
    this.#push = push;
  }

  get status(): GroupStatus {
    return this.#follow.status;
  }

  /** Shows it a group as it is after a change. */
  take(change: number, group: GroupedError): void {
    const { rpcMethod } = this.#follow;
    const data = JSON.stringify(
      rpcMethod === null ? group : { jsonrpc: '2.0', method: rpcMethod, params: group },
    );
    this.#push([{ text: `id: ${change}\ndata: ${data}\n\n`, events: 1, lastId: change, isLast: false }]);
  }

  /** Ends its stream: the app is gone. */
  end(): void {
    this.#push([{ text: '', events: 0, lastId: null, isLast: true }]);
  }
}
