// A received e-mail for one address.
import type { Authentication } from './authentication.ts';
import type { Head } from './head.ts';

export interface Incoming {
  /** The envelope's sender; empty for a notification. */
  from: string;
  /** The envelope's recipient. */
  to: string;
  /** The whole e-mail, with the headers that this server has added. */
  raw: Buffer;
  head: Head;
  dmarc: Authentication['dmarc'];
}
