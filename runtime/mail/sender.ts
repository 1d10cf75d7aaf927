// Who may be the sender of an app's e-mails.
import { mayBeSender, type Senders } from './addresses.ts';
import { senderNotVerified } from './errors.ts';

/** Checks an e-mail's sender. @throws {MailError} when the operator does not allow apps to send from this address */
export function requireSender(senders: Senders, from: string): void {
  if (!mayBeSender(senders, from))
    throw senderNotVerified(
      `Apps may not send from ${from} here. The operator of this Cellar names the domains and addresses from which apps may send with RUNNER_SMTP_APP_SENDERS.`,
    );
}
