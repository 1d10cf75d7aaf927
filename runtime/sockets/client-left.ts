// Notices that a client has disconnected.
import type { ServerResponse } from 'node:http';

/** Returns a signal that aborts when the client disconnects before it has its whole response. */
export function clientLeft(response: ServerResponse): AbortSignal {
  const left = new AbortController();
  const abort = () => {
    if (!response.writableFinished) left.abort(new Error('the client has disconnected'));
  };
  if (response.destroyed) abort();
  else response.once('close', abort);
  return left.signal;
}
