// Passes an e-mail to the app. The host's receiver is at the other end of a WebSocket. The receiver sends each part of the
// content when the app reads it, and carries out forwards and replies.

import { rejections } from './cellar-error-reporter.js';

/** The property of an `EmailMessage` with its raw MIME, as in Miniflare. */
const RAW = Symbol.for('EmailMessage::raw');
/** Fields of a reply given as an object. */
const FIELDS = ['from', 'replyTo', 'subject', 'text', 'html', 'headers', 'attachments'];
/** Maximum size of a reply, in bytes. The receiver has the same limit. */
const REPLY_BYTES = 5 * 2 ** 20;

/** The connection to the receiver. */
class Link {
  /** Resolves with the e-mail's sender, recipient, headers and size. */
  described;
  #socket;
  #chunk = null;
  /** Forwards and replies under way, by id. */
  #sends = new Map();
  #last = 0;

  constructor(socket) {
    this.#socket = socket;
    const { promise, resolve, reject } = Promise.withResolvers();
    this.described = promise;
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', ({ data }) => {
      if (typeof data !== 'string') {
        this.#chunk?.resolve(new Uint8Array(data));
        return;
      }
      const { message, ...answer } = JSON.parse(data);
      if (answer.id === undefined) resolve(message);
      else this.#settle(answer, message);
    });
    socket.addEventListener('close', () => {
      const error = new Error(
        'The delivery of the e-mail has ended. Await forward() and reply() in email(), and return within 2 minutes.',
      );
      reject(error);
      this.#chunk?.reject(error);
      for (const { reject } of this.#sends.values()) reject(error);
    });
  }

  /** Returns the next bytes of the content; an empty array at its end. */
  chunk() {
    this.#chunk = Promise.withResolvers();
    this.#socket.send('{"more":true}');
    return this.#chunk.promise;
  }

  send(kind, given) {
    const id = ++this.#last;
    const sent = Promise.withResolvers();
    this.#sends.set(id, sent);
    this.#socket.send(JSON.stringify({ send: { id, kind, given } }));
    return sent.promise;
  }

  end(outcome) {
    // If the host has disconnected, nobody waits for the outcome.
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ outcome }));
  }

  #settle({ id, messageId, code }, why) {
    const sent = this.#sends.get(id);
    this.#sends.delete(id);
    if (code === undefined) sent?.resolve({ messageId });
    else sent?.reject(Object.assign(new Error(why), { code }));
  }
}

/** The argument of the app's `email()`. */
class ForwardableEmailMessage {
  #link;
  #raw = null;

  constructor(link, { from, to, headers, rawSize }) {
    this.#link = link;
    this.from = from;
    this.to = to;
    this.rawSize = rawSize;
    this.canBeForwarded = true;
    rejections.set(this, undefined);
    this.headers = new Headers();
    for (const [name, value] of headers) {
      try {
        this.headers.append(name, value);
      } catch {
        // `Headers` refuses an invalid value. The raw content still has it.
      }
    }
  }

  get raw() {
    this.#raw ??= contentOf(this.#link, this.rawSize);
    return this.#raw;
  }

  setReject(reason) {
    rejections.set(this, String(reason));
  }

  async forward(rcptTo, headers) {
    return this.#link.send('forward', { to: String(rcptTo), headers: [...new Headers(headers)] });
  }

  async reply(message) {
    return this.#link.send('reply', await replyOf(message));
  }
}

function contentOf(link, size) {
  // R2 only takes a stream of known length.
  const { readable, writable } = new FixedLengthStream(size);
  const writer = writable.getWriter();
  const write = async () => {
    for (let chunk = await link.chunk(); chunk.length > 0; chunk = await link.chunk())
      await writer.write(chunk);
    await writer.close();
  };
  // Rejects when the app stops reading, or when the receiver disconnects. The app's next read then throws the error.
  write().catch((error) => writer.abort(error).catch(() => {}));
  return readable;
}

async function replyOf(message) {
  if (typeof message !== 'object' || message === null)
    throw new TypeError('reply() takes an EmailMessage, or an object with from and subject.');
  if (message[RAW] !== undefined)
    return { from: message.from, to: message.to ?? undefined, raw: await base64Of(message[RAW]) };
  const built = Object.fromEntries(FIELDS.map((name) => [name, message[name]]));
  if (Array.isArray(built.attachments))
    built.attachments = await Promise.all(
      built.attachments.map(async (attachment) =>
        // A string is already base64.
        typeof attachment?.content === 'object' && attachment.content !== null
          ? { ...attachment, content: await base64Of(attachment.content) }
          : attachment,
      ),
    );
  return built;
}

async function base64Of(content) {
  const bytes = new Uint8Array(await new Response(content).arrayBuffer());
  if (bytes.length > REPLY_BYTES)
    throw Object.assign(new Error(`An e-mail may have at most ${REPLY_BYTES} bytes.`), {
      code: 'E_CONTENT_TOO_LARGE',
    });
  return bytes.toBase64();
}

/**
 * Answers the receiver's request with a WebSocket, and calls the app.
 * @param handler calls the app's `email()`; null when it has none
 * @returns the response, and a promise that resolves when the app has handled the e-mail, or failed
 */
export function answerEmail(handler) {
  const [client, server] = Object.values(new WebSocketPair());
  const link = new Link(server);
  server.accept();
  return { response: new Response(null, { status: 101, webSocket: client }), done: give(link, handler) };
}

async function give(link, handler) {
  try {
    const message = new ForwardableEmailMessage(link, await link.described);
    if (handler === null) throw new Error('the app has no email() handler');
    await handler(message);
    const reason = rejections.get(message);
    link.end(reason === undefined ? { kind: 'accepted' } : { kind: 'rejected', reason });
  } catch (error) {
    // The app's error is in its log. The sender of the e-mail must not see it.
    link.end({ kind: 'failed', reason: handler === null ? error.message : 'the app failed' });
  }
}
