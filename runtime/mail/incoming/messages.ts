// Messages between the host and the receiver of e-mails, and the headers of the receiver's requests to the host.
import type { MailServiceOptions } from '../app-server.ts';

/** The request header at the host's socket: an envelope as JSON, in ASCII. */
export const ENVELOPE_HEADER = 'x-cellar-envelope';
/** The response header with the id of the app that has the address. */
export const APP_HEADER = 'x-cellar-app';
/** The response header with the id of the app's account. */
export const OWNER_HEADER = 'x-cellar-owner';

/** PEM texts of a certificate with its chain, and of its key. */
export interface Tls {
  cert: string;
  key: string;
}

/** The first message to the receiver, with the listening socket. */
export interface Setup {
  type: 'setup';
  /** The name by which the receiver introduces itself to other mail servers: the base domain. */
  name: string;
  /** Path of the host's Unix socket, at which the host looks up e-mail addresses and forwards e-mails to the apps. */
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
