// Delivers e-mails to the app, at the path that `wrangler dev` uses. Forwards and replies are printed, not sent.

import { rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Gateway } from '../edge/gateway.ts';
import { asciiJson } from '../edge/http/body/ascii-json.ts';
import { CALL_HEADER } from '../edge/http/head/service-headers.ts';
import type { Backend } from '../edge/upstream/backend.ts';
import { comparable, domainOf, isAddress } from '../mail/addresses.ts';
import { Deliveries, type Outcome } from '../mail/incoming/delivery.ts';
import { headOf, valuesOf } from '../mail/incoming/head.ts';
import { MAIL_BYTES } from '../mail/incoming/incoming.ts';
import { Outgoing } from '../mail/incoming/outgoing.ts';
import { discard, readAtMost } from '../sockets/read-at-most.ts';
import { backendAt } from './backend.ts';

export const EMAIL_PATH = '/cdn-cgi/handler/email';

/** A placeholder: the rules for forwards and replies need a mail server. Nothing connects to it. */
const NO_SERVER = { host: '', port: 0, isSecure: false, isLocal: false, user: null, password: null };

export interface EmailsOptions {
  /** Paths of two sockets: `asked` is that of `backend`, and `app` leads to the app. */
  sockets: { asked: string; app: string };
  gateway: Gateway;
  app: Backend;
  say: (words: string) => void;
}

export class Emails {
  /** Answers requests to `EMAIL_PATH`. */
  readonly backend: Backend;
  readonly #server: Server;
  readonly #options: EmailsOptions;

  private constructor(options: EmailsOptions) {
    this.#options = options;
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.backend = backendAt({ socketPath: options.sockets.asked }, 'emails');
  }

  static async start(options: EmailsOptions): Promise<Emails> {
    const { sockets, gateway, app } = options;
    const emails = new Emails(options);
    await gateway.listenService(sockets.app, () => ({
      kind: 'proxy',
      backend: app,
      limits: { site: app.site, clientRpm: 0, appRpm: 0 },
      call: {
        socketName: 'exports',
        lines: `${CALL_HEADER}: ${asciiJson({ kind: 'email' })}\r\n`,
        hopLines: '',
        endsItself: true,
        ended: () => {},
      },
    }));
    rmSync(sockets.asked, { force: true });
    await new Promise<void>((resolve, reject) => {
      emails.#server.once('error', reject).listen(sockets.asked, resolve);
    });
    return emails;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [status, text] = await this.#receive(request).catch(
      (error: Error) => [400, error.message] as const,
    );
    response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
  }

  async #receive(request: IncomingMessage): Promise<[number, string]> {
    const { searchParams } = new URL(request.url!, 'http://localhost');
    const from = searchParams.get('from') ?? '';
    const to = searchParams.get('to') ?? '';
    const why = request.method === 'POST' ? null : 'POST the e-mail as the body';
    if (why !== null || !isAddress(to) || (from !== '' && !isAddress(from))) {
      await discard(request);
      return [400, why ?? 'The query needs the addresses: ?from=ann@example.com&to=info@example.com'];
    }
    const raw = await readAtMost(request, MAIL_BYTES);
    if (raw === null) return [413, `An e-mail may have at most ${MAIL_BYTES} bytes.`];
    const head = headOf(raw);
    if (head === null || valuesOf(head, 'from').length !== 1)
      return [400, 'The body must be an e-mail: headers with one From, an empty line, and the text.'];
    const incoming = { owner: 'developer', from, to, raw, head, dmarc: 'pass' as const };
    const deliveries = new Deliveries(this.#options.sockets.app, this.#outgoing(to));
    return answerOf(await deliveries.deliver(incoming, 'development'));
  }

  /** Prints forwards and replies, which are not sent. Checks them as if the operator allowed the address's domain. */
  #outgoing(address: string): Outgoing {
    const senders = { domains: [domainOf(comparable(address))], addresses: [], own: '' };
    return new Outgoing({ server: NO_SERVER, senders }, async (_server, { from, to, raw }) =>
      this.#options.say(
        `not sent here: an e-mail from ${from || 'nobody'} to ${to.join(', ')} (${raw.length} bytes)`,
      ),
    );
  }
}

function answerOf(outcome: Outcome): [number, string] {
  if (outcome.kind === 'accepted') return [200, 'The app has accepted the e-mail.'];
  if (outcome.kind === 'rejected') return [400, `The app has rejected the e-mail: ${outcome.reason}`];
  return [500, `The e-mail failed: ${outcome.reason}`];
}
