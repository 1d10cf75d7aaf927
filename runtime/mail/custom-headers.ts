// Custom e-mail headers that an app sets.
import { cutText } from '../../handlers/contract/text.ts';
import {
  headerInvalid,
  headerNotAllowed,
  headersTooLarge,
  headersTooMany,
  headerUseField,
} from './errors.ts';

/** Maximum custom headers of an e-mail. */
const MOST = 20;
/** Maximum bytes of a name. */
const NAME_BYTES = 100;
/** Maximum bytes of a value. */
const VALUE_BYTES = 2_048;
/** Maximum bytes of all names and values together. */
const ALL_BYTES = 16_384;
/** Headers that an app must set with the message's fields instead, such as `subject`. */
const FIELDS = ['from', 'to', 'cc', 'bcc', 'subject', 'reply-to'];
/** Headers that Cellar or a mail server writes, or that describe the body's encoding. */
const OTHERS =
  /^(?:date|message-id|mime-version|sender|received|return-path|delivered-to|authentication-results|arc-.*|resent-.*|content-.*|dkim-.*|domainkey-.*|received-.*|apparently-.*)$/;

/** Checks only the number of headers, of unchecked input too. @throws {MailError} when they are too many */
export function requireFewHeaders(headers: unknown): void {
  if (typeof headers !== 'object' || headers === null) return;
  const { length } = Object.keys(headers);
  if (length > MOST)
    throw headersTooMany(`An e-mail may have at most ${MOST} headers of its own, not ${length}.`);
}

/**
 * Checks the headers, and returns them unchanged.
 * @throws {MailError} when one is invalid or not allowed, or when they are too many or too large
 */
export function customHeaders(headers: Record<string, string>): Record<string, string> {
  requireFewHeaders(headers);
  const all = Object.entries(headers);
  let bytes = 0;
  for (const [name, value] of all) {
    const shown = JSON.stringify(cutText(name, NAME_BYTES));
    if (!/^[!-9;-~]+$/.test(name) || name.length > NAME_BYTES)
      throw headerInvalid(`${shown} is not the name of a header.`);
    const lower = name.toLowerCase();
    if (FIELDS.includes(lower))
      throw headerUseField(`The header ${shown} is given by a field of the message.`);
    if (OTHERS.test(lower)) throw headerNotAllowed(`The header ${shown} may not be set.`);
    if (value === '' || /[\r\n\0]/.test(value))
      throw headerInvalid(`The value of ${shown} must be one line of text.`);
    const size = Buffer.byteLength(value);
    if (size > VALUE_BYTES)
      throw headerInvalid(`The value of ${shown} may have at most ${VALUE_BYTES} bytes.`);
    bytes += name.length + size;
  }
  if (bytes > ALL_BYTES)
    throw headersTooLarge(`The headers of an e-mail may have at most ${ALL_BYTES} bytes.`);
  return headers;
}
