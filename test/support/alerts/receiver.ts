// A webhook receiver: a server on loopback that records the messages it gets.
import { createHmac } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

const DEADLINE_MS = 120_000;

export interface Received {
  headers: IncomingHttpHeaders;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: the tests assert on the body
  body: any;
}

export class Receiver {
  readonly received: Received[] = [];
  /** The next answers, in order. The last one repeats. */
  answers: { status: number; headers?: Record<string, string> }[] = [{ status: 204 }];
  /** If true, the server records messages but does not answer them. */
  hangs = false;
  readonly #arrived = new EventEmitter();
  readonly #server = createServer(async (request, response) => {
    const body = await text(request);
    const isJson = request.headers['content-type'] === 'application/json';
    this.received.push({ headers: request.headers, text: body, body: isJson ? JSON.parse(body) : null });
    if (this.hangs) return;
    const { status, headers = {} } = this.answers.length > 1 ? this.answers.shift()! : this.answers[0]!;
    response.writeHead(status, headers).end();
    this.#arrived.emit('message');
  });

  static async start(): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  /** The received messages without duplicates. Cellar sends a message again, with the same id, if the answer is late. */
  get distinct(): Received[] {
    return [...new Map(this.received.map((each) => [each.headers['webhook-id'], each])).values()];
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook`;
  }

  /** Resolves with the first message for which `wanted` returns true. */
  async first(wanted: (message: Received) => boolean): Promise<Received> {
    const deadline = AbortSignal.timeout(DEADLINE_MS);
    for (;;) {
      const found = this.received.find(wanted);
      if (found) return found;
      await once(this.#arrived, 'message', { signal: deadline }).catch(() => {
        throw new Error(
          `no such message came; these did:\n${this.received.map((each) => each.text).join('\n')}`,
        );
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/** Returns the signature that a message must have, computed from the receiver's secret. */
export function signatureOf({ headers, text: body }: Received, secret: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
}
