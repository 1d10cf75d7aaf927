// The connection to the mail server.
import type { Transporter } from 'nodemailer';
import { cutText } from '../../handlers/contract/text.ts';
import { reason } from '../log.ts';
import type { SmtpServer } from './smtp-server.ts';

/** Maximum characters of a reported reason: parts of it are the mail server's own words. */
const REASON_LENGTH = 300;
/** Maximum bytes of a mail server's answer. */
const ANSWER_BYTES = 16 * 1024;

/** Returns an SMTP transport, which makes a new connection for each e-mail. */
export async function transportTo(server: SmtpServer): Promise<Transporter> {
  const { host, port, isSecure, user, password, isLocal } = server;
  // Loaded by the first e-mail, because many machines send none.
  const { createTransport } = await import('nodemailer');
  return createTransport({
    host,
    port,
    secure: isSecure,
    // A password is never sent over the network in clear text.
    requireTLS: !isLocal && user !== null,
    // A mail server on this machine has no certificate for `localhost`.
    ignoreTLS: isLocal,
    ...(user !== null && { auth: { user, pass: password ?? '' }, forceAuth: true }),
    maxResponseSize: ANSWER_BYTES,
    socketCloseTimeout: 0,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** Returns why an e-mail was not sent. Omits the server's words when it refuses a password: they may repeat it. */
export function mailFailure(error: Error & { code?: string }): string {
  if (error.code === 'EAUTH') return 'the mail server refuses the user and password of RUNNER_SMTP_URL';
  return cutText(reason(error).replace(/\s+/g, ' ').trim(), REASON_LENGTH);
}
