// A received e-mail for one address.
import type { Authentication } from './authentication.ts';
import type { Head } from './head.ts';

/** Maximum threads that check e-mails. */
export const CHECKS = 4;
/** Maximum bytes of an e-mail, as on Cloudflare. */
export const MAIL_BYTES = 25 * 2 ** 20;

export interface Incoming {
  /** The account of the app that has the address. */
  owner: string;
  /** The envelope's sender; empty for a notification. */
  from: string;
  /** The envelope's recipient. */
  to: string;
  /** The whole e-mail, with the headers that this server has added. */
  raw: Buffer;
  head: Head;
  dmarc: Authentication['dmarc'];
}
