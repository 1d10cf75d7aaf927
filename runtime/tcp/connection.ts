// One TCP connection, passed on to its app over a WebSocket through the host, which finds or starts the app's process.
// `tcp-event-module.js` is at the other end of the WebSocket. That file describes the messages.
import { connect, type Socket } from 'node:net';
import { Agent, WebSocket } from 'undici';
import { asciiJson } from '../edge/http/body/ascii-json.ts';
import { reset } from '../sockets/gateway-socket.ts';
import { CALLER_HEADER, type Caller } from './messages.ts';

/** Flow-control window: maximum unacknowledged bytes from the app. At as many from the client, the client is paused. */
const WINDOW_BYTES = 128 * 1024;
/** Maximum bytes that wait to be sent to the host. A window, one read more and the acknowledgements always fit. */
const WAITING_BYTES = 4 * WINDOW_BYTES;
/** Timeout for the start of an app's process, in ms. */
const START_MS = 120_000;
/** Idle timeout of the client's connection, in ms. */
const IDLE_MS = 600_000;
/** Longest text message from the app's side, in characters: an acknowledgement or the end of its stream. */
const TEXT_LENGTH = 100;
/** WebSocket close codes of a normal end: the app closed it, or the host ends the app's process. */
const WHOLE = [1000, 1012];

export class Connection {
  readonly #client: Socket;
  readonly #socket: WebSocket;
  /** The connection to the host's socket; null before it is opened. */
  #host: Socket | null = null;
  /** Bytes sent to the app that it has not acknowledged. */
  #sent = 0;
  /** Bytes from the app that are not sent to the client yet. */
  #written = 0;

  /**
   * @param client paused; it is destroyed when the connection ends
   * @param socket path of the host's socket
   */
  constructor(client: Socket, port: number, socket: string) {
    this.#client = client;
    const caller: Caller = {
      port,
      remote: written(client.remoteAddress!, client.remotePort!),
      local: written(client.localAddress!, port),
    };
    const agent = new Agent({
      connect: (_options, opened) => {
        this.#host = connect(socket);
        this.#host.once('connect', () => opened(null, this.#host!));
        this.#host.once('error', (error) => opened(error, null));
      },
      webSocket: { maxPayloadSize: WINDOW_BYTES },
    });
    // The request log shows this path.
    this.#socket = new WebSocket(`ws://tcp/tcp/${port}`, {
      dispatcher: agent,
      headers: { [CALLER_HEADER]: asciiJson(caller) },
    });
    this.#socket.binaryType = 'arraybuffer';
    const late = setTimeout(() => this.#breakOff(), START_MS);
    this.#socket.addEventListener('open', () => {
      clearTimeout(late);
      this.#begin();
    });
    this.#socket.addEventListener('message', ({ data }) => this.#take(data));
    this.#socket.addEventListener('error', () => this.#breakOff());
    this.#socket.addEventListener('close', ({ code }) => {
      if (WHOLE.includes(code)) client.destroySoon();
      else this.#breakOff();
    });
    client.once('close', () => {
      clearTimeout(late);
      this.#host?.destroy();
      void agent.destroy();
    });
  }

  #begin(): void {
    const client = this.#client;
    client.setTimeout(IDLE_MS, () => this.#breakOff());
    client.on('data', (bytes: Buffer) => {
      this.#send(bytes);
      this.#sent += bytes.length;
      if (this.#sent >= WINDOW_BYTES) client.pause();
    });
    client.once('end', () => this.#send('{"end":true}'));
    client.resume();
  }

  #take(data: unknown): void {
    if (data instanceof ArrayBuffer) this.#write(new Uint8Array(data));
    else if (typeof data === 'string' && data.length <= TEXT_LENGTH) this.#told(data);
    else this.#breakOff();
  }

  #write(bytes: Uint8Array): void {
    this.#written += bytes.length;
    // The app's side broke the protocol: it sent more than the window, or after the end of its stream.
    if (this.#written > WINDOW_BYTES || this.#client.writableEnded) {
      this.#breakOff();
      return;
    }
    this.#client.write(bytes, () => {
      this.#written -= bytes.length;
      this.#send(`{"ack":${bytes.length}}`);
    });
  }

  #told(text: string): void {
    const { ack, end } = toldOf(text);
    // A negative `ack` is invalid. One of more bytes than were sent would let the client send without a limit.
    if (!(ack >= 0 && ack <= this.#sent)) {
      this.#breakOff();
      return;
    }
    if (end) this.#client.end();
    this.#sent -= ack;
    if (this.#sent < WINDOW_BYTES) this.#client.resume();
  }

  #send(message: Buffer | string): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#socket.send(message);
    if (this.#socket.bufferedAmount > WAITING_BYTES) this.#breakOff();
  }

  /** Resets the client's connection, so that the client does not take the cut for a normal end. */
  #breakOff(): void {
    if (!this.#client.destroyed) reset(this.#client);
  }
}

/** Parses a text message of the app's process, which is untrusted. @returns `ack`: NaN for an invalid message */
function toldOf(text: string): { ack: number; end: boolean } {
  try {
    const { ack = 0, end = false } = JSON.parse(text);
    return { ack: typeof ack === 'number' ? ack : NaN, end: end === true };
  } catch {
    return { ack: NaN, end: false };
  }
}

/** Writes an address and a port as workerd does. */
function written(address: string, port: number): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/, '');
  return plain.includes(':') ? `[${plain}]:${port}` : `${plain}:${port}`;
}
