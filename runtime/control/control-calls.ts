// The host's own calls to the control plane, over its unix socket.
import { Agent, request } from 'undici';

/** A request to the control plane. */
interface Asked {
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: string;
  signal: AbortSignal;
}

/** The control plane rejected a call. */
export class ControlError extends Error {
  readonly status: number;
  /** One of the contract's error codes, if the response has one. */
  readonly code: unknown;
  constructor(status: number, message: string, code?: unknown) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class ControlCalls {
  readonly #agent: Agent;
  readonly #secret: string;

  /** @param secret authenticates the host to the control plane */
  constructor(socketPath: string, secret: string) {
    // Each call has its own timeout.
    this.#agent = new Agent({ connect: { socketPath }, headersTimeout: 0, bodyTimeout: 0 });
    this.#secret = secret;
  }

  /**
   * Sends `body` as JSON to an internal route.
   * @returns the response's JSON; undefined for an empty response
   * @throws {ControlError} when the control plane rejects the call; {Error} when it does not answer, or `signal` aborts
   */
  async post(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    const { statusCode, text } = await this.#ask(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-cellar-secret': this.#secret },
      body: JSON.stringify(body),
      signal,
    });
    if (statusCode < 200 || statusCode > 299) throw refusalOf(path, statusCode, text);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** Resolves when the control plane answers, with any status. @throws {Error} when it does not, or `signal` aborts */
  async probe(signal: AbortSignal): Promise<void> {
    await this.#ask('/internal/probe', { signal });
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #ask(path: string, options: Asked): Promise<{ statusCode: number; text: string }> {
    const url = `http://control${path}`;
    const { statusCode, body } = await request(url, { ...options, dispatcher: this.#agent });
    return { statusCode, text: await body.text() };
  }
}

function refusalOf(path: string, status: number, text: string): ControlError {
  const message = `${path} answered ${status}: ${text.slice(0, 500)}`;
  try {
    return new ControlError(status, message, (JSON.parse(text) as { code?: unknown }).code);
  } catch {
    return new ControlError(status, message);
  }
}
