// Implements `cloudflare:email`: messages for a `send_email` binding.

/** The property of a message with its raw MIME, as in Miniflare. */
const RAW = Symbol.for('EmailMessage::raw');

/** Returns the raw MIME content of an `EmailMessage`: a string, a stream or bytes; undefined for other objects. */
export let rawOf;

class EmailMessage {
  #from;
  #to;
  #raw;

  /** @param raw the MIME message with its headers: a string, a stream or bytes */
  constructor(from, to, raw) {
    this.#from = from;
    this.#to = to;
    this.#raw = raw;
  }
  get from() {
    return this.#from;
  }
  get to() {
    return this.#to;
  }
  get [RAW]() {
    return this.#raw;
  }

  static {
    rawOf = (message) => (#raw in message ? message.#raw : undefined);
  }
}

export default { EmailMessage };
