// The server behind the HOST binding.
import { rmSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { join } from 'node:path';

/** Maximum connections that wait to be accepted. The kernel may have a lower limit. Calls of a larger burst are refused. */
const BACKLOG = 4096;

/** Returns the path of the server's socket. @param directory to which only the host may have access */
export function hostSocket(directory: string): string {
  return join(directory, 'host.sock');
}

/** The server for calls of the control plane's process, also for those that other hosts pass on. */
export class HostServer {
  readonly path: string;
  readonly #server: Server;

  /** @param directory of its socket, to which only the host may have access */
  constructor(directory: string, answer: RequestListener) {
    this.path = hostSocket(directory);
    // No timeouts: a push or a clone may take long, and the control plane closes idle connections. If this server closed an
    // idle connection, a call that arrives at the same moment would fail.
    this.#server = createServer({ requestTimeout: 0, keepAliveTimeout: 0 }, (request, response) => {
      // Reads the unused rest of a body, because the connection's next call follows it.
      response.once('finish', () => request.resume());
      answer(request, response);
    });
  }

  /** Starts to listen. Replaces the stale socket of a killed host. */
  async listen(): Promise<void> {
    if (this.#server.listening) return;
    rmSync(this.path, { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ path: this.path, backlog: BACKLOG }, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
