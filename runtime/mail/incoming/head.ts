// Reads the head of a received e-mail.

/** Maximum bytes of a head: the time of some checks grows with the square of its size. */
export const HEAD_BYTES = 256 * 1024;
/** Maximum lines of a head, for the same reason. */
export const HEAD_LINES = 4_000;

export interface Field {
  /** Lower case. */
  name: string;
  /** On one line. */
  value: string;
  /** The header as it was sent, without its line end. */
  line: string;
}

/** The headers of an e-mail. */
export interface Head {
  fields: Field[];
  /** Offset in bytes at which the last header ends, without its line end. Without a body: the length of the e-mail. */
  end: number;
}

/**
 * Returns the head; null when it is too long, has a line that is not a header, or a CR inside a line. After such a CR some
 * readers would see another header, such as one that this server removes. An e-mail without an empty line has no body.
 */
export function headOf(message: Buffer): Head | null {
  const start = message.subarray(0, HEAD_BYTES + 4).toString('latin1');
  const found = /\r\n\r\n|\n\n/.exec(start);
  const end = found === null ? message.length : found.index;
  if (end > HEAD_BYTES) return null;
  const fields: Field[] = [];
  const text = start.slice(0, end);
  if (/\r(?!\n)/.test(text) || text.split('\n').length > HEAD_LINES) return null;
  for (const line of text.replace(/\r?\n$/, '').split(/\r?\n(?![ \t])/)) {
    if (line === '' && fields.length === 0) continue;
    const [, name, value] = /^([!-9;-~]{1,200})[ \t]*:(.*)$/s.exec(line) ?? [];
    if (name === undefined) return null;
    const decoded = Buffer.from(value!, 'latin1').toString('utf8');
    fields.push({ name: name.toLowerCase(), value: decoded.replace(/\r?\n/g, '').trim(), line });
  }
  return { fields, end };
}

/** Returns the values of a header, in order. */
export function valuesOf({ fields }: Head, name: string): string[] {
  return fields.filter((field) => field.name === name).map(({ value }) => value);
}

/**
 * Returns an e-mail with other headers.
 * @param isKept whether a header stays
 * @param added header lines without line ends; they come before the kept ones
 */
export function withHeaders(
  message: Buffer,
  { fields, end }: Head,
  isKept: (name: string) => boolean,
  added: string[],
): Buffer {
  const kept = fields.filter(({ name }) => isKept(name)).map(({ line }) => line);
  const head = Buffer.from([...added, ...kept].join('\r\n'), 'latin1');
  const body = end === message.length ? Buffer.from('\r\n\r\n') : message.subarray(end);
  return Buffer.concat([head, body]);
}
