// What the host and the receiver of e-mails tell each other, and the header by which the receiver names a recipient.
import type { MailServiceOptions } from '../app-server.ts';

/** The request header at the host's socket: an envelope as JSON, in ASCII. */
export const ENVELOPE_HEADER = 'x-cellar-envelope';
/** The answer's headers with the ids of the app that has the address, and of its account. */
export const APP_HEADER = 'x-cellar-app';
export const OWNER_HEADER = 'x-cellar-owner';

/** PEM texts of a certificate with its chain, and of its key. */
export interface Tls {
  cert: string;
  key: string;
}

/** The first message to the receiver, with the listening socket. */
export interface Setup {
  type: 'setup';
  /** Its name for other mail servers: the base domain. */
  name: string;
  /** The host's socket that knows addresses, and leads to the apps. */
  socket: string;
  /** Null: a certificate that it makes itself. */
  tls: Tls | null;
  /** By which forwards and replies go out; null without a mail server. */
  outgoing: MailServiceOptions | null;
}

/** A new certificate. */
export interface Renewal {
  type: 'tls';
  tls: Tls;
}
