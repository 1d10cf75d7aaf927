// Converts an e-mail from an app, in fields or as raw MIME, to a message for the mail server.
import { randomUUID } from 'node:crypto';
import MailComposer from 'nodemailer/lib/mail-composer';
import { z } from 'zod';
import { hasAtMost } from '../../handlers/contract/json-text.ts';
import { cutText } from '../../handlers/contract/text.ts';
import { asciiDomainOf, isAddress } from './addresses.ts';
import { customHeaders, requireFewHeaders } from './custom-headers.ts';
import { invalid, missing, tooLarge, tooManyRecipients } from './errors.ts';
import { rawMessage } from './raw-message.ts';

/** Maximum bytes of an e-mail, with its head and attachments. */
export const MESSAGE_BYTES = 5 * 2 ** 20;
/** Maximum recipients, in `to`, `cc` and `bcc` together. */
export const RECIPIENTS = 50;
/** Maximum brackets, commas and colons of an e-mail as JSON. More would fill the heap with values and validation errors. */
const JSON_PARTS = 10_000;
/** Maximum characters of the subject. */
const SUBJECT_LENGTH = 998;
const ATTACHMENTS = 32;
/** Maximum characters of a person's name. */
const NAME_LENGTH = 320;
/** Maximum characters of `Name <address>`. */
const NAMED_LENGTH = 600;

/** An e-mail that is ready for the mail server. */
export interface Message {
  /** The Message-ID, with angle brackets. */
  id: string;
  from: string;
  /** All recipients, also those of `cc` and `bcc`. */
  to: string[];
  /** Head and body, with CRLF line ends. */
  raw: Buffer;
}

const name = z.string().max(NAME_LENGTH);
const Address = z
  .union([z.string().max(NAMED_LENGTH), z.object({ email: z.string(), name: name.nullish() })])
  .transform((given) =>
    typeof given === 'string' ? parsed(given) : { address: given.email, name: given.name ?? '' },
  )
  .refine(({ address }) => isAddress(address), 'must be an e-mail address');
const Addresses = z
  .union([Address, z.array(Address).min(1).max(1_000)])
  .transform((given) => (Array.isArray(given) ? given : [given]));
const text = z.string().nullish();
const plain = (length: number) =>
  z
    .string()
    .max(length)
    .regex(/^[^\p{Cc}]*$/u, 'must have no control characters');

const Attachment = z.object({
  filename: plain(255).min(1),
  type: plain(255).regex(
    /^(?!multipart\/|message\/)[\w.+-]+\/[\w.+-]+( *;.*)?$/,
    'must be a MIME type of a file',
  ),
  content: z.base64('must be base64, or bytes'),
  disposition: z.enum(['attachment', 'inline']).default('attachment'),
  contentId: plain(255)
    .regex(/^[^<>]*$/, 'must have no angle brackets')
    .nullish(),
});

const Raw = z.object({ from: z.string(), to: z.string().optional(), raw: z.base64() });
const Built = z.object({
  from: Address,
  to: Addresses.nullish(),
  cc: Addresses.nullish(),
  bcc: Addresses.nullish(),
  replyTo: Address.nullish(),
  subject: z.string().max(SUBJECT_LENGTH),
  text,
  html: text,
  headers: z.record(z.string(), z.string()).nullish(),
  attachments: z.array(Attachment).max(ATTACHMENTS).nullish(),
});

/**
 * Parses and checks an e-mail from an app.
 * @param asked the JSON that the binding sent
 * @param destination the recipient when the e-mail names none
 * @throws {MailError} naming the fault
 */
export async function messageOf(asked: unknown, destination: string | undefined): Promise<Message> {
  const isRaw = typeof asked === 'object' && asked !== null && 'raw' in asked;
  const message = isRaw ? fromRaw(asked, destination) : await fromFields(asked, destination);
  if (message.to.length === 0) throw missing('to');
  if (message.to.length > RECIPIENTS)
    throw tooManyRecipients(
      `An e-mail may go to at most ${RECIPIENTS} recipients, in "to", "cc" and "bcc" together, not to ${message.to.length}.`,
    );
  requireSize(message.raw.length);
  return message;
}

/**
 * Parses the JSON of an e-mail.
 * @throws {SyntaxError} when it is not JSON
 * @throws {MailError} when it has too many values
 */
export function parseJson(text: string): unknown {
  if (!hasAtMost(JSON_PARTS, '{[,:', text))
    throw tooLarge(`An e-mail may have at most ${JSON_PARTS} brackets, commas and colons in its JSON.`);
  return JSON.parse(text);
}

/** Checks the size of an e-mail. @param bytes its size, or a lower bound of it @throws {MailError} when it is too large */
function requireSize(bytes: number): void {
  if (bytes > MESSAGE_BYTES)
    throw tooLarge(`An e-mail may have at most ${MESSAGE_BYTES} bytes; this one has ${bytes}.`);
}

function fromRaw(asked: unknown, destination: string | undefined): Message {
  const { from, to = destination, raw } = checked(Raw, asked);
  for (const address of [from, to])
    if (address !== undefined && !isAddress(address))
      throw invalid(`${cutText(address, 100)} is not an e-mail address.`);
  return { from, to: to === undefined ? [] : [to], ...rawMessage(Buffer.from(raw, 'base64'), from) };
}

async function fromFields(asked: unknown, destination: string | undefined): Promise<Message> {
  for (const field of ['from', 'subject'])
    if ((asked as Record<string, unknown> | null)?.[field] == null) throw missing(field);
  // Checked before the schema, which would make an error object for each invalid header.
  requireFewHeaders((asked as Record<string, unknown>).headers);
  const { from, cc, bcc, replyTo, subject, text, html, headers, attachments, ...given } = checked(
    Built,
    asked,
  );
  const nobody = !given.to && !cc && !bcc;
  const to = given.to ?? (nobody && destination !== undefined ? [parsed(destination)] : []);
  const parts = [text, html, ...(attachments ?? []).map(({ content }) => content)];
  // Checked before composing, which takes time for each byte. Attachments stay base64 in the message.
  requireSize(parts.reduce((sum, part) => sum + (part?.length ?? 0), 0));
  const id = `<${randomUUID()}@${asciiDomainOf(from.address)}>`;
  const composed = new MailComposer({
    from,
    to,
    cc: cc ?? [],
    ...(replyTo && { replyTo }),
    subject,
    ...(typeof text === 'string' && { text }),
    ...(typeof html === 'string' && { html }),
    headers: customHeaders(headers ?? {}),
    attachments: (attachments ?? []).map(({ filename, type, content, disposition, contentId }) => ({
      filename,
      contentType: type,
      content: Buffer.from(content, 'base64'),
      contentDisposition: disposition,
      ...(contentId && { cid: contentId }),
    })),
    messageId: id,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const recipients = [...to, ...(cc ?? []), ...(bcc ?? [])].map(({ address }) => address);
  return { id, from: from.address, to: recipients, raw: await composed.compile().build() };
}

/** Parses `bob@example.com` or `Bob <bob@example.com>`. */
function parsed(given: string): { address: string; name: string } {
  const text = given.trim();
  const open = text.lastIndexOf('<');
  if (open === -1 || !text.endsWith('>')) return { address: text, name: '' };
  const before = text.slice(0, open).trim();
  return { address: text.slice(open + 1, -1), name: before.replace(/^"(.*)"$/s, '$1') };
}

function checked<Output>(schema: z.ZodType<Output>, asked: unknown): Output {
  const { success, data, error } = schema.safeParse(asked);
  if (success) return data;
  const [issue] = error.issues;
  const path = issue!.path
    .map((each) => (typeof each === 'number' ? `[${each}]` : `.${String(each)}`))
    .join('');
  throw invalid(`"${cutText(path.slice(1), 99)}": ${cutText(issue!.message, 200)}`);
}
