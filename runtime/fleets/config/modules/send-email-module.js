// A `send_email` binding in an app's Worker. It only forwards messages. The mail service, which the app's code cannot
// change, checks what may be sent.
import { rawOf } from 'cloudflare-internal:email';

/** Fields of a message given as an object. */
const FIELDS = ['from', 'to', 'cc', 'bcc', 'replyTo', 'subject', 'text', 'html', 'headers', 'attachments'];
/** Maximum size of a message, in bytes. The mail service has the same limit. */
const MESSAGE_BYTES = 5 * 2 ** 20;

function refusal(code, message) {
  return Object.assign(new Error(message), { code });
}

async function base64Of(content) {
  const bytes = new Uint8Array(await new Response(content).arrayBuffer());
  if (bytes.length > MESSAGE_BYTES)
    throw refusal('E_CONTENT_TOO_LARGE', `An e-mail may have at most ${MESSAGE_BYTES} bytes.`);
  return bytes.toBase64();
}

async function attachmentOf(attachment) {
  const { content } = attachment ?? {};
  // A string is already base64.
  if (typeof content !== 'object' || content === null) return attachment;
  return { ...attachment, content: await base64Of(content) };
}

/** Returns a message in the mail service's format. @throws {Error} with a `code` for an invalid message */
async function asked(message) {
  if (typeof message !== 'object' || message === null)
    throw refusal(
      'E_VALIDATION_ERROR',
      'send() takes an EmailMessage, or an object with from, to and subject.',
    );
  const raw = rawOf(message);
  if (raw !== undefined) return { from: message.from, to: message.to ?? undefined, raw: await base64Of(raw) };
  const built = Object.fromEntries(FIELDS.map((name) => [name, message[name]]));
  if (Array.isArray(built.attachments))
    built.attachments = await Promise.all(built.attachments.map(attachmentOf));
  return built;
}

class SendEmail {
  #fetcher;

  constructor(fetcher) {
    this.#fetcher = fetcher;
  }

  /** Resolves when the mail server has accepted the message for all recipients. Rejects with an Error that has a `code`. */
  async send(message) {
    const body = JSON.stringify(await asked(message));
    const answer = await this.#fetcher.fetch('http://mail/send', { method: 'POST', body });
    const { messageId, code, message: why } = await answer.json();
    if (messageId === undefined) throw refusal(code, why);
    return { messageId };
  }
}

export default ({ fetcher }) => new SendEmail(fetcher);
