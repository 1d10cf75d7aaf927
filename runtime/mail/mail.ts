// Sends Cellar's own e-mails, such as invites: each to one person, in plain text, within a deadline.
import type { Mail } from '../../handlers/contract/host/host-calls.ts';
import { logRarely } from '../log.ts';
import { FairQueue, QueueFull } from '../queues/fair-queue.ts';
import { isAddress } from './addresses.ts';
import type { SmtpServer } from './smtp-server.ts';
import { mailFailure, transportTo } from './transport.ts';

/** Timeout for an e-mail in ms: its wait in the queue, the DNS lookup of the mail server and the delivery. */
const DEADLINE_MS = 12_000;
const LIMITS = { name: 'e-mails', running: 8, runningPerOwner: 2, waitingPerOwner: 8 };

/** Returns a mail server's answer for the log: without what may be a person's e-mail address. */
export function withoutAddresses(answer: string): string {
  return answer.replace(/[^\s<>]*@[^\s<>]*/g, '…');
}

export class Mailer {
  readonly #server: SmtpServer | null;
  readonly #from: string;
  readonly #deadlineMs: number;
  readonly #ending = new AbortController();
  readonly #queue = new FairQueue(LIMITS);

  /** @param server null: no e-mail is sent */
  constructor(server: SmtpServer | null, from: string, deadlineMs = DEADLINE_MS) {
    this.#server = server;
    this.#from = from;
    this.#deadlineMs = deadlineMs;
  }

  /**
   * Sends an e-mail. Never rejects.
   * @param owner whose share of the queue it uses, such as an account's id
   * @returns why it was not sent; null when the mail server has accepted it
   */
  async send(mail: Mail, owner: string): Promise<string | null> {
    if (this.#server === null) return 'no mail server is set (RUNNER_SMTP_URL)';
    if (!isAddress(mail.to)) return 'the e-mail address is not valid';
    const server = this.#server;
    const deadline = AbortSignal.timeout(this.#deadlineMs);
    const signal = AbortSignal.any([deadline, this.#ending.signal]);
    try {
      await this.#queue.run({ owner, signal }, () => this.#deliver(server, mail, signal));
      return null;
    } catch (error) {
      if (error instanceof QueueFull) return error.message;
      const why = deadline.aborted
        ? `the mail server did not answer within ${this.#deadlineMs / 1000} s`
        : mailFailure(error as Error & { code?: string });
      // Does not log the e-mail, which may contain a secret link, nor the person's address, which a mail server may repeat.
      logRarely('warn', 'an e-mail could not be sent', { error: withoutAddresses(why) });
      return why;
    }
  }

  /** Aborts waiting and running deliveries. */
  stop(): void {
    this.#ending.abort(new Error('the host is stopping'));
  }

  async #deliver(server: SmtpServer, { to, subject, text }: Mail, signal: AbortSignal): Promise<void> {
    const transport = await transportTo(server);
    await transport.sendMail({ from: this.#from, to: { name: '', address: to }, subject, text, signal });
  }
}
