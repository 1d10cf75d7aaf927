// Messages between the host and the receiver of e-mails, and the headers of the receiver's requests to the host.
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
  /** The name by which it introduces itself to other mail servers: the base domain. */
  name: string;
  /** Path of the host's socket, which looks up e-mail addresses and leads to the apps. */
  socket: string;
  /** Null: the receiver makes a certificate itself. */
  tls: Tls | null;
  /** Mail server and rules for forwards and replies; null without a mail server. */
  outgoing: MailServiceOptions | null;
}

/** A new certificate. */
export interface Renewal {
  type: 'tls';
  tls: Tls;
}
