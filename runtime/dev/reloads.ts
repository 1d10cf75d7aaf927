// Serves browsers during development: an event stream that makes pages reload when the version changes, and a page that says
// why nothing is live.
import { rmSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { Backend } from '../edge/upstream/backend.ts';
import { failurePage, RELOAD_PATH } from './answers.ts';
import { backendAt } from './backend.ts';

/** Interval of the comments that keep connections open, in ms. */
const BEAT_MS = 15_000;
const HEAD = { 'content-type': 'text/event-stream', 'cache-control': 'no-store' };

export class Reloads {
  readonly backend: Backend;
  readonly #server: Server;
  readonly #open = new Set<ServerResponse>();
  readonly #beat: NodeJS.Timeout;
  #version = '';

  private constructor(socketPath: string, failure: () => string) {
    this.#server = createServer((request, response) => {
      if (request.url === RELOAD_PATH) return this.#follow(response);
      const { status, headers, body } = failurePage(failure());
      response.writeHead(status, headers).end(body);
    });
    this.backend = backendAt({ socketPath }, 'reloads');
    this.#beat = setInterval(() => this.#write(': \n\n'), BEAT_MS).unref();
  }

  /** Starts the server. @param failure returns why nothing is live */
  static async start(socketPath: string, failure: () => string): Promise<Reloads> {
    rmSync(socketPath, { force: true });
    const reloads = new Reloads(socketPath, failure);
    await new Promise<void>((resolve, reject) => {
      reloads.#server.once('error', reject).listen(socketPath, resolve);
    });
    return reloads;
  }

  /** Makes every page reload that shows another version. */
  notify(version: string): void {
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
