// The host's own calls to the control plane, over its unix socket.
import { askSocket } from '../sockets/ask-socket.ts';

/** Maximum bytes of a response. */
const ANSWER_BYTES = 64 * 2 ** 20;

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
  readonly #socketPath: string;
  readonly #secret: string;

  /** @param secret authenticates the host to the control plane */
  constructor(socketPath: string, secret: string) {
    this.#socketPath = socketPath;
    this.#secret = secret;
  }

  /**
   * Sends `body` as JSON to an internal route.
   * @returns the response's JSON; undefined for an empty response
   * @throws {ControlError} when the control plane rejects the call; {Error} when it does not answer, or `signal` aborts
   */
  async post(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    const { status, text } = await askSocket(this.#socketPath, {
      method: 'POST',
      path,
      headers: { host: 'control', 'content-type': 'application/json', 'x-cellar-secret': this.#secret },
      body: JSON.stringify(body),
      limitBytes: ANSWER_BYTES,
      signal,
    });
    if (text === null) throw new Error(`${path} answered with more than ${ANSWER_BYTES} bytes`);
    if (status < 200 || status > 299) throw refusalOf(path, status, text);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** Resolves when the control plane answers, with any status. @throws {Error} when it does not, or `signal` aborts */
  async probe(signal: AbortSignal): Promise<void> {
    const headers = { host: 'control' };
    await askSocket(this.#socketPath, {
      path: '/internal/probe',
      headers,
      limitBytes: ANSWER_BYTES,
      signal,
    });
  }
}

function refusalOf(path: string, status: number, text: string): ControlError {
  const messageOf = (why: string) => `${path} answered ${status}: ${why.slice(0, 500)}`;
  try {
    const { code, detail } = JSON.parse(text) as { code?: unknown; detail?: unknown };
    return new ControlError(status, messageOf(typeof detail === 'string' ? detail : text), code);
  } catch {
    return new ControlError(status, messageOf(text));
  }
}
