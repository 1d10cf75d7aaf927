// The way to the mail server.
import type { Transporter } from 'nodemailer';
import { cutText } from '../../handlers/contract/text.ts';
import { reason } from '../log.ts';
import type { SmtpServer } from './smtp-server.ts';

/** Longest reason that is told, in characters: parts of it are the mail server's own words. */
const REASON_LENGTH = 300;
/** Longest answer of the mail server, in bytes. */
const ANSWER_BYTES = 16 * 1024;

/** A way to the mail server, by a connection of its own for each e-mail. */
export async function transportTo(server: SmtpServer): Promise<Transporter> {
  const { host, port, isSecure, user, password, isLocal } = server;
  // Loaded by the first e-mail: most machines send none.
  const { createTransport } = await import('nodemailer');
  return createTransport({
    host,
    port,
    secure: isSecure,
    // A password does not go out in clear text; a relay on this machine has no certificate for `localhost`.
    requireTLS: !isLocal && user !== null,
    ignoreTLS: isLocal,
    ...(user !== null && { auth: { user, pass: password ?? '' }, forceAuth: true }),
    maxResponseSize: ANSWER_BYTES,
    socketCloseTimeout: 0,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** Why an e-mail was not sent. A mail server that refuses a password may repeat it: its words are left out then. */
export function whyNot(error: Error & { code?: string }): string {
  if (error.code === 'EAUTH') return 'the mail server refuses the user and password of RUNNER_SMTP_URL';
  return cutText(reason(error).replace(/\s+/g, ' ').trim(), REASON_LENGTH);
}
