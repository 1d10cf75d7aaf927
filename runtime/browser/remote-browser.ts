// The browser of a session at the operator's endpoint (RUNNER_BROWSER_URL), which starts one browser for each connection.
import { type ClientRequest, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { invalid } from './errors.ts';
import type { Browser } from './session.ts';

export class RemoteBrowser implements Browser {
  readonly connections = 1;
  readonly silence = 'the browser that RUNNER_BROWSER_URL names accepts no connection';
  readonly #url: URL;

  /** @param url of the endpoint, `ws:` or `wss:` */
  constructor(url: string) {
    this.#url = new URL(url.replace(/^ws/, 'http'));
  }

  /** Does nothing: the endpoint starts a browser for the session's connection. */
  async start(): Promise<void> {}

  async request(
    path: string | null,
    method: string,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<ClientRequest> {
    if (path !== null)
      throw invalid(`${path} is not available: RUNNER_BROWSER_URL gives a session one connection`);
    const send = this.#url.protocol === 'https:' ? httpsRequest : httpRequest;
    return send(this.#url, { method, headers, signal, agent: false });
  }

  /** Does nothing: the browser ends with its connection. */
  end(): void {}
}
