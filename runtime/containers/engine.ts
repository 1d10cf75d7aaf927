// The few calls of a container engine's API that Cellar makes: Docker's, which Podman offers too. Only the host makes them.
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { readAtMost } from '../sockets/read-at-most.ts';

/** Timeout of a call, in ms. A start may take seconds on a busy machine. */
const TIMEOUT_MS = 60_000;
/** Maximum bytes of an answer. */
const ANSWER_BYTES = 4 * 2 ** 20;

/** The engine refused a call. `status`: the HTTP status of its response. */
export class EngineError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export class Engine {
  readonly #socketPath: string;

  /** @param socketPath path of the engine's socket */
  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  /**
   * Returns the directories of an image that are volumes; null when the engine has no such image. @throws {EngineError}
   */
  async volumesOf(image: string): Promise<string[] | null> {
    const path = `/images/${encodeURIComponent(image)}/json`;
    const found = await this.#call('GET', path).catch((error: unknown) => {
      if (error instanceof EngineError && error.status === 404) return null;
      throw error;
    });
    if (found === null) return null;
    const { Config } = found as { Config?: { Volumes?: Record<string, unknown> | null } };
    return Object.keys(Config?.Volumes ?? {});
  }

  /** Makes an image of a tar archive. @throws {EngineError} */
  async importImage(image: string, tar: Buffer): Promise<void> {
    await this.#call('POST', `/images/create?fromSrc=-&repo=${encodeURIComponent(image)}`, tar);
  }

  /**
   * Creates a container. Replaces a container with the same name: an earlier call that timed out may have left one.
   * @returns the id of the new container
   * @throws {EngineError}
   */
  async create(name: string, settings: object): Promise<string> {
    const path = `/containers/create?name=${encodeURIComponent(name)}`;
    const create = async () => ((await this.#call('POST', path, settings)) as { Id: string }).Id;
    return create().catch(async (error: unknown) => {
      if (!(error instanceof EngineError && error.status === 409)) throw error;
      await this.remove(encodeURIComponent(name));
      return create();
    });
  }

  /** @throws {EngineError} */
  async start(id: string): Promise<void> {
    await this.#call('POST', `/containers/${id}/start`);
  }

  /** Waits for a container's end. @returns its exit code. @throws {EngineError} */
  async wait(id: string, signal: AbortSignal): Promise<number> {
    const answer = await this.#call('POST', `/containers/${id}/wait`, undefined, signal);
    return (answer as { StatusCode: number }).StatusCode;
  }

  /** Sends a signal, unless the container has ended. @throws {EngineError} */
  async signal(id: string, signal: number): Promise<void> {
    await this.#unless([409], 'POST', `/containers/${id}/kill?signal=${signal}`);
  }

  /** Kills and removes a container with its volumes, if it exists. @throws {EngineError} */
  async remove(id: string): Promise<void> {
    // Without this kill, the engine may first send SIGTERM, and wait ten seconds.
    await this.#unless([404, 409, 500], 'POST', `/containers/${id}/kill?signal=9`);
    await this.#unless([404, 409], 'DELETE', `/containers/${id}?force=true&v=true`);
  }

  /** Returns the ids of all containers with a label. @throws {EngineError} */
  async labelled(label: string): Promise<string[]> {
    const filters = encodeURIComponent(JSON.stringify({ label: [label] }));
    const found = (await this.#call('GET', `/containers/json?all=true&filters=${filters}`)) as {
      Id: string;
    }[];
    return found.map(({ Id }) => Id);
  }

  async #unless(statuses: number[], method: string, path: string): Promise<void> {
    await this.#call(method, path).catch((error: unknown) => {
      if (!(error instanceof EngineError && statuses.includes(error.status))) throw error;
    });
  }

  async #call(
    method: string,
    path: string,
    body?: object | Buffer,
    signal = AbortSignal.timeout(TIMEOUT_MS),
  ): Promise<unknown> {
    const isTar = Buffer.isBuffer(body);
    const bytes = body === undefined || isTar ? (body ?? '') : JSON.stringify(body);
    const asked = request({
      socketPath: this.#socketPath,
      method,
      path,
      agent: false,
      signal,
      headers: {
        host: 'engine',
        'content-type': isTar ? 'application/x-tar' : 'application/json',
        'content-length': Buffer.byteLength(bytes),
      },
    });
    asked.end(bytes);
    const [response] = (await once(asked, 'response', { signal })) as [IncomingMessage];
    const answer = (await readAtMost(response, ANSWER_BYTES))?.toString() ?? '';
    const { statusCode: status = 0 } = response;
    if (status >= 400) throw new EngineError(status, messageOf(answer));
    try {
      return JSON.parse(answer);
    } catch {
      // The answer is empty, or no caller reads it.
      return null;
    }
  }
}

function messageOf(answer: string): string {
  try {
    return String((JSON.parse(answer) as { message: unknown }).message);
  } catch {
    return answer.slice(0, 200);
  }
}
