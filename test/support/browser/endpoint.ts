// An endpoint of the Chrome DevTools Protocol such as browserless: each connection gets a Chromium of its own.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';

export class BrowserEndpoint {
  readonly #token: string;
  readonly #directory = mkdtempSync(join(tmpdir(), 'cellar-browser-'));
  readonly #server = createServer((_, response) => response.writeHead(404).end());
  readonly #browsers = new Set<ChildProcess>();
  /** Connections so far that gave the right token. */
  count = 0;

  private constructor(token: string) {
    this.#token = token;
    this.#server.on('upgrade', (request, client, head) => void this.#serve(request, client, head));
  }

  /** @param token the token that each client's URL must contain */
  static async start(token: string): Promise<BrowserEndpoint> {
    const endpoint = new BrowserEndpoint(token);
    endpoint.#server.listen(0, '127.0.0.1');
    await once(endpoint.#server, 'listening');
    return endpoint;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}/?token=${this.#token}`;
  }

  /** Number of running browsers. */
  get running(): number {
    return this.#browsers.size;
  }

  async #serve({ url, headers }: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    client.on('error', () => client.destroy());
    if (new URL(url!, 'http://endpoint').searchParams.get('token') !== this.#token)
      return void client.end('HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n');
    const profile = join(this.#directory, String(this.count++));
    const browser = spawn(
      '/usr/bin/chromium',
      ['--headless=new', '--no-sandbox', '--remote-debugging-port=0', `--user-data-dir=${profile}`],
      { stdio: ['ignore', 'ignore', 'pipe'], detached: true },
    );
    this.#browsers.add(browser);
    browser.once('exit', () => this.#browsers.delete(browser));
    const kill = () => browser.exitCode === null && process.kill(-browser.pid!, 'SIGKILL');
    client.on('close', kill);
    for await (const line of createInterface({ input: browser.stderr! })) {
      const [, port, path] = /^DevTools listening on ws:\/\/127\.0\.0\.1:(\d+)(\/.*)$/.exec(line) ?? [];
      if (path === undefined) continue;
      const own = connect(Number(port), '127.0.0.1');
      const key = headers['sec-websocket-key'];
      own.write(
        `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`,
      );
      own.write(head);
      own.on('error', () => client.destroy());
      own.on('close', () => client.destroy());
      client.pipe(own).pipe(client);
      break;
    }
    browser.stderr!.resume();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    const ended = [...this.#browsers].map((browser) => once(browser, 'exit'));
    for (const { pid } of this.#browsers) process.kill(-pid!, 'SIGKILL');
    await Promise.all(ended);
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
