// The server behind the HOST binding.
import { rmSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { join } from 'node:path';

/** A server that only the control plane's process asks. */
export class HostServer {
  readonly path: string;
  readonly #server: Server;

  /** @param directory where its socket goes, which nobody but the host may enter */
  constructor(directory: string, answer: RequestListener) {
    this.path = join(directory, 'host.sock');
    // A push or a clone may take long. Idle connections are closed by the control plane: if this server did it, a call
    // could come on a connection just as it closes.
    this.#server = createServer({ requestTimeout: 0, keepAliveTimeout: 0 }, (request, response) => {
      // Reads the rest of a body that was not needed: the next call on the connection comes after it.
      response.once('finish', () => request.resume());
      answer(request, response);
    });
  }

  /** Begins to listen, also where a killed host left its socket. */
  async listen(): Promise<void> {
    if (this.#server.listening) return;
    rmSync(this.path, { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.path, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
  }

  /** Ends it and every connection. */
  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
