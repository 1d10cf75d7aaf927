// Hands an e-mail to the mail server.
import { failedDelivery } from './errors.ts';
import type { SmtpServer } from './smtp-server.ts';
import { mailFailure, transportTo } from './transport.ts';

/** Timeout for an e-mail in ms, from the DNS lookup of the mail server to its acceptance of the e-mail. */
export const DEADLINE_MS = 30_000;

/**
 * Sends an e-mail. Resolves when the mail server has accepted it for all recipients.
 * @param mail `from`: empty for a notification of a mail server, which nobody may answer; `raw`: with CRLF line ends
 * @throws {MailError} when the mail server refuses a recipient, fails, or does not answer in time
 */
export async function deliver(
  server: SmtpServer,
  { from, to, raw }: { from: string; to: string[]; raw: Buffer },
): Promise<void> {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  let refused: Error[];
  try {
    const transport = await transportTo(server);
    const sent = await transport.sendMail({ envelope: { from, to }, raw, signal: deadline });
    refused = sent.rejectedErrors ?? [];
  } catch (error) {
    const late = `the mail server did not answer within ${DEADLINE_MS / 1000} s`;
    throw failedDelivery(`The e-mail was not sent: ${deadline.aborted ? late : mailFailure(error as Error)}`);
  }
  if (refused.length > 0)
    throw failedDelivery(
      `The e-mail was sent, but not to ${refused.length} of ${to.length} recipients: ${mailFailure(refused[0]!)}`,
    );
}
