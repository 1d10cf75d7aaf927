// Passes a TCP connection to the app. The host's relay is at the other end of a WebSocket. Binary messages carry the bytes.
// Text messages are JSON: `{"end":true}` ends the sender's direction, `{"ack":n}` acknowledges n more bytes.

/** Flow-control window: maximum unacknowledged bytes sent to the relay. The relay has the same limit. */
const WINDOW_BYTES = 128 * 1024;
/** Maximum size of one message, in bytes. */
const CHUNK_BYTES = 64 * 1024;
/** WebSocket close code of a normal end. */
const WHOLE = 1000;
/** WebSocket close code of a broken connection. */
const BROKEN = 1011;

/** The connection to the relay. */
class Link {
  readable;
  writable;
  /** Resolves at a normal end of the connection. Rejects when the connection was lost. */
  closed;
  #socket;
  #ended = Promise.withResolvers();
  /** Chunks that the client has sent and the app has not read. A null means that the client has ended its direction. */
  #unread = [];
  #onMessage = Promise.withResolvers();
  #unacknowledged = 0;
  #onAck = Promise.withResolvers();
  /** Settles when the chunk that the app wrote is sent; null when nothing is being sent. */
  #sending = null;

  constructor(socket) {
    this.#socket = socket;
    this.closed = this.#ended.promise;
    // Without a handler, a lost connection would be an unhandled rejection.
    this.closed.catch(() => {});
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', ({ data }) => this.#take(data));
    socket.addEventListener('close', ({ code }) => this.#lost(code));
    socket.accept();
    let isCancelled = false;
    this.readable = new ReadableStream(
      {
        type: 'bytes',
        pull: async (controller) => {
          const bytes = await this.#next();
          if (isCancelled) return;
          if (bytes !== null) {
            controller.enqueue(bytes);
            return;
          }
          controller.close();
          controller.byobRequest?.respond(0);
        },
        cancel: async () => {
          isCancelled = true;
          // Reads and drops what the client still sends.
          while ((await this.#next()) !== null);
        },
      },
      { highWaterMark: 0 },
    );
    this.writable = new WritableStream({
      write: async (chunk) => {
        this.#sending = this.#send(bytesOf(chunk));
        await this.#sending;
        this.#sending = null;
      },
      close: () => this.#tell({ end: true }),
      abort: () => this.close(BROKEN, 'aborted'),
    });
  }

  /** Closes the connection once all that the app has written so far is sent. */
  async end() {
    for (;;) {
      // The stream starts its next write only in a later turn of the event loop.
      await scheduler.wait(0);
      if (this.#sending === null) break;
      await this.#sending.catch(() => {
        this.#sending = null;
      });
    }
    this.close(WHOLE);
  }

  close(code, reason) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.close(code, reason);
    this.#lost(code);
  }

  #take(data) {
    if (typeof data !== 'string') this.#put(new Uint8Array(data));
    else {
      const { ack = 0, end } = JSON.parse(data);
      if (end) this.#put(null);
      this.#unacknowledged -= ack;
      this.#onAck.resolve();
      this.#onAck = Promise.withResolvers();
    }
  }

  #put(bytes) {
    this.#unread.push(bytes);
    this.#onMessage.resolve();
    this.#onMessage = Promise.withResolvers();
  }

  /**
   * Returns the client's next bytes and acknowledges them; null when the client has ended its direction.
   * @throws {Error} when the connection has ended
   */
  async #next() {
    while (this.#unread.length === 0) await Promise.race([this.#onMessage.promise, this.#brokenOff()]);
    // The null stays in the list for later reads.
    const [bytes] = this.#unread;
    if (bytes === null) return null;
    this.#unread.shift();
    this.#tell({ ack: bytes.length });
    return bytes;
  }

  async #send(bytes) {
    for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
      const chunk = bytes.subarray(at, at + CHUNK_BYTES);
      while (this.#unacknowledged + chunk.length > WINDOW_BYTES)
        await Promise.race([this.#onAck.promise, this.#brokenOff()]);
      if (this.#socket.readyState !== WebSocket.OPEN) throw new Error('The TCP connection is closed.');
      this.#unacknowledged += chunk.length;
      this.#socket.send(chunk);
    }
  }

  #tell(told) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(told));
  }

  /** Rejects when the connection has ended. Never resolves. */
  async #brokenOff() {
    await this.closed;
    throw new Error('The TCP connection is closed.');
  }

  #lost(code) {
    if (code === WHOLE) this.#ended.resolve();
    else this.#ended.reject(new Error('The TCP connection was lost.'));
  }
}

function bytesOf(chunk) {
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError('A TCP connection takes bytes: an ArrayBuffer or a view of one, such as a Uint8Array.');
}

/** The argument of the app's `connect()`. It has the members of the `Socket` of `cloudflare:sockets`. */
class Socket {
  #link;
  #opened;

  constructor(link, { remote, local }) {
    this.#link = link;
    this.#opened = Promise.resolve({ remoteAddress: remote, localAddress: local });
  }

  get readable() {
    return this.#link.readable;
  }

  get writable() {
    return this.#link.writable;
  }

  get opened() {
    return this.#opened;
  }

  get closed() {
    return this.#link.closed;
  }

  get upgraded() {
    return false;
  }

  get secureTransport() {
    return 'off';
  }

  async close() {
    await this.#link.end();
  }

  startTls() {
    throw new TypeError(
      "The `secureTransport` socket option must be set to 'starttls' for startTls to be used.",
    );
  }
}

/**
 * Answers the relay's request with a WebSocket, and calls the app.
 * @param addresses `remote`: the client's address and port; `local`: the address and port that it has reached
 * @param handler calls the app's `connect()`; null when it has none
 * @returns the response, and a promise that resolves when the connection has ended. If the app cannot take connections, the
 *   response is a 404 and the promise is null
 */
export function answerConnection(addresses, handler) {
  const why = whyNot(handler);
  if (why !== null) {
    console.warn(`A TCP connection was refused: ${why}.`);
    return { response: new Response(null, { status: 404 }), done: null };
  }
  const [client, server] = Object.values(new WebSocketPair());
  const done = give(new Link(server), addresses, handler);
  return { response: new Response(null, { status: 101, webSocket: client }), done };
}

function whyNot(handler) {
  if (handler === null) return 'the Worker has no connect() handler';
  const { streams_enable_constructors: hasStreams } = Cloudflare.compatibilityFlags;
  return hasStreams ? null : 'its compatibility_date must be 2022-11-30 or later';
}

async function give(link, addresses, handler) {
  try {
    await handler(new Socket(link, addresses));
  } catch {
    // The error is already reported. The connection is closed, as workerd itself does.
  }
  await link.end();
}
