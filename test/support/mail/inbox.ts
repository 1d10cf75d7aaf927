// A real SMTP server. It accepts and records e-mails to all addresses but `nobody@…`.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';

export interface Received {
  from: string;
  to: string[];
  /** Head and body, with `\n` as line end and long lines joined again. */
  text: string;
}

export const USER = 'cellar@example.com';
/** Contains characters that a URL must encode. */
export const PASSWORD = 'p@ss/word?';

export class Inbox {
  readonly received: Received[] = [];
  /** User names of all sign-in attempts. */
  readonly tried: string[] = [];
  readonly #server: SMTPServer;

  private constructor(options: SMTPServerOptions) {
    this.#server = new SMTPServer({
      disableReverseLookup: true,
      allowInsecureAuth: true,
      closeTimeout: 10,
      onAuth: ({ username = '', password }, _session, answer) => {
        this.tried.push(username);
        if (username === USER && password === PASSWORD) answer(null, { user: username });
        else answer(new Error(`no such password: ${password}`));
      },
      onRcptTo: ({ address }, _session, answer) =>
        answer(address.startsWith('nobody@') ? new Error('there is no such mailbox') : null),
      onData: (stream, { envelope }, answer) => {
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8').replaceAll('\r\n', '\n');
          const { mailFrom, rcptTo } = envelope;
          this.received.push({
            from: mailFrom === false ? '' : mailFrom.address,
            to: rcptTo.map(({ address }) => address),
            text: decode(text),
          });
          answer();
        });
      },
      ...options,
    });
    // Ignores clients that disconnect in the middle of a command.
    this.#server.on('error', () => {});
  }

  /** Returns the invite links in e-mails to an address, oldest first. */
  linksTo(address: string): string[] {
    return this.received
      .filter(({ to }) => to.includes(address))
      .map(({ text }) => /^https?:\/\/\S+\/invite\?token=\S+$/m.exec(text)![0]);
  }

  /** Starts a server on loopback. */
  static async start(options: SMTPServerOptions = {}): Promise<Inbox> {
    const inbox = new Inbox(options);
    inbox.#server.listen(0, '127.0.0.1');
    await once(inbox.#server.server, 'listening');
    return inbox;
  }

  /** Starts a server that closes when the test ends. */
  static async of(t: TestContext, options: SMTPServerOptions = {}): Promise<Inbox> {
    const inbox = await Inbox.start(options);
    t.after(() => inbox.close());
    return inbox;
  }

  get port(): number {
    return (this.#server.server.address() as AddressInfo).port;
  }

  /** The value for `RUNNER_SMTP_URL`. */
  get url(): string {
    return `smtp://${encodeURIComponent(USER)}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${this.port}`;
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}

/** Decodes a quoted-printable body. */
function decode(text: string): string {
  if (!/^content-transfer-encoding: quoted-printable$/im.test(text)) return text;
  return text
    .replace(/=\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
