// Tells pages in browsers that the app has changed: a stream of server-sent events with the number of the version.
import { rmSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { Backend } from '../edge/backend.ts';
import { backendAt } from './backend.ts';

/** Where pages follow it, as `reload-worker.js` has it. */
export const RELOAD_PATH = '/.well-known/fleet/reload';
/** A comment so often keeps connections open, in ms. */
const BEAT_MS = 15_000;
const HEAD = { 'content-type': 'text/event-stream', 'cache-control': 'no-store' };

export class Reloads {
  readonly backend: Backend;
  readonly #server: Server;
  readonly #open = new Set<ServerResponse>();
  readonly #beat: NodeJS.Timeout;
  #version = '';

  private constructor(socketPath: string) {
    this.#server = createServer((_, response) => this.#follow(response));
    this.backend = backendAt({ socketPath }, 'reloads');
    this.#beat = setInterval(() => this.#write(': \n\n'), BEAT_MS).unref();
  }

  static async start(socketPath: string): Promise<Reloads> {
    rmSync(socketPath, { force: true });
    const reloads = new Reloads(socketPath);
    await new Promise<void>((resolve, reject) => {
      reloads.#server.once('error', reject).listen(socketPath, resolve);
    });
    return reloads;
  }

  /** Has every page load again that does not show this version. */
  tell(version: string): void {
    this.#version = version;
    this.#write(this.#event());
  }

  close(): void {
    clearInterval(this.#beat);
    for (const response of this.#open) response.end();
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #follow(response: ServerResponse): void {
    response.writeHead(200, HEAD);
    response.write(this.#event());
    this.#open.add(response);
    response.on('close', () => this.#open.delete(response));
  }

  #event(): string {
    return `retry: 500\ndata: ${this.#version}\n\n`;
  }

  #write(text: string): void {
    for (const response of this.#open) response.write(text);
  }
}
