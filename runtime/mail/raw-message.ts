// Checks an e-mail in raw MIME from an app. Its head may name no other sender than its envelope, because recipients see the
// head.
import { randomUUID } from 'node:crypto';
import { asciiDomainOf, comparable } from './addresses.ts';
import { headerNotAllowed, invalid, senderNotVerified } from './errors.ts';

const HEAD_BYTES = 64 * 1024;
/** Headers that only a mail server writes. */
const SERVERS_OWN = /^(?:received|resent-.*|authentication-results|arc-.*|delivered-to)$/;
/** Headers that are removed: recipients must not see `bcc`, and the receiving mail server writes `return-path`. */
const LEFT_OUT = ['bcc', 'return-path'];
const CRLF = '\r\n';

/**
 * Checks the head of a raw message.
 * @param from the only address that the head may name as sender
 * @returns the message with CRLF line ends, and its Message-ID, which is added if it is missing
 * @throws {MailError} naming the fault
 */
export function rawMessage(bytes: Buffer, from: string): { raw: Buffer; id: string } {
  // Replaces line ends other than CRLF: a server that accepts them could be tricked into a second e-mail (SMTP smuggling).
  const text = bytes.toString('latin1').replace(/\r\n?|\n/g, CRLF);
  const end = text.indexOf(CRLF + CRLF);
  if (end === -1) throw invalid('The raw e-mail has no empty line after its head.');
  if (end > HEAD_BYTES) throw invalid(`The head of a raw e-mail may have at most ${HEAD_BYTES} bytes.`);
  const fields = text
    .slice(0, end)
    .split(/\r\n(?![ \t])/)
    .map((line) => ({ line, ...fieldOf(line) }));
  const named = (name: string) => fields.filter((field) => field.name === name);
  const foreign = fields.find(({ name }) => SERVERS_OWN.test(name));
  if (foreign) throw headerNotAllowed(`The raw e-mail may not have the header ${foreign.name}.`);
  if (named('from').length !== 1) throw invalid('The raw e-mail needs one From header.');
  if (named('sender').length > 1) throw invalid('The raw e-mail may have at most one Sender header.');
  for (const { value, name } of [...named('from'), ...named('sender')])
    if (!isOnly(value, from))
      throw senderNotVerified(`The ${name} header of the raw e-mail must name only its sender, ${from}.`);
  if (named('message-id').length > 1) throw invalid('The raw e-mail may have at most one Message-ID header.');
  const [given] = named('message-id');
  const id = given?.value ?? `<${randomUUID()}@${asciiDomainOf(from)}>`;
  if (!/^<[\x21-\x3b=?-\x7e]{1,250}>$/.test(id))
    throw invalid('The Message-ID of the raw e-mail must be like <a@b>.');
  const kept = fields.filter(({ name }) => !LEFT_OUT.includes(name)).map(({ line }) => line);
  if (given === undefined) kept.push(`Message-ID: ${id}`);
  return { raw: Buffer.from(kept.join(CRLF) + text.slice(end), 'latin1'), id };
}

function fieldOf(line: string): { name: string; value: string } {
  const [, name, value] = /^([!-9;-~]{1,100})[ \t]*:(.*)$/s.exec(line) ?? [];
  if (name === undefined) throw invalid('The raw e-mail has a line in its head that is not a header.');
  return { name: name.toLowerCase(), value: value!.replace(/\r\n/g, '').trim() };
}

/** Returns whether a field names this address alone: `bob@example.com` or `Bob <bob@example.com>`. */
function isOnly(value: string, address: string): boolean {
  // Keeps a quote that does not end, because the next regular expression refuses quotes.
  const unquoted = value.replace(/"(?:[^"\\]|\\.)*("?)/g, (_, end) => (end === '' ? '"' : ''));
  const [, bare, inBrackets] = /^(?:([^<>,;:"()]+)|[^<>,;:"]*<([^<>,;:"()]+)>)$/.exec(unquoted) ?? [];
  const found = (inBrackets ?? bare)?.trim();
  return found !== undefined && comparable(found) === comparable(address);
}
