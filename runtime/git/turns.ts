// Queues git's work on repositories: limits the concurrent pushes and fetches of an account.
import type { ServerResponse } from 'node:http';
import { FairQueue, QueueFull } from '../queues/fair-queue.ts';
import { clientLeft } from '../sockets/client-left.ts';

/** Limits of concurrent pushes and fetches. Each may run several git processes, each with its own memory limit. */
const LIMITS = { name: 'pushes and fetches', running: 9, runningPerOwner: 3, waitingPerOwner: 50 };

export class GitTurns {
  readonly #queue = new FairQueue(LIMITS);

  /**
   * Calls `serve` when the owner gets a slot. The slot is freed when `serve` ends or calls `taken`. Responds with 503 when
   * too many calls of the owner wait. Resolves when `serve` has ended, or the client has disconnected before its turn.
   */
  async serve(
    owner: string,
    response: ServerResponse,
    serve: (taken: () => void) => Promise<void>,
  ): Promise<void> {
    const left = clientLeft(response);
    if (left.aborted) return;
    let served: Promise<void> | undefined;
    try {
      await this.#queue.run({ owner, signal: left }, () => {
        const { promise: taken, resolve } = Promise.withResolvers<void>();
        served = serve(resolve);
        return Promise.race([served, taken]);
      });
    } catch (error) {
      if (error instanceof QueueFull) return refuse(response, error.message);
      if (served === undefined && left.aborted) return;
      throw error;
    }
    await served;
  }
}

function refuse(response: ServerResponse, message: string): void {
  response.writeHead(503, { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '5' });
  response.end(`Cellar cannot handle this push or fetch now: ${message}.\n`);
}
