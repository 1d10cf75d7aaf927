// Writes Cap'n Proto's text format from plain values, so that every string is quoted.

/** A value of a config. A string is written in quotes. An `Expression` is text without quotes, such as an embedded file. */
export type CapnpValue = string | number | boolean | Expression | CapnpValue[] | Fields;

export type Fields = { [field: string]: CapnpValue };

/** Text that is written without quotes. Only this file creates it. */
export class Expression {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** Returns an expression for the content of a file, which workerd reads at its start. `path` is relative to the config. */
export function embed(path: string): Expression {
  return new Expression(`embed ${quote(path)}`);
}

/** The value of a field of type `Void`. */
export const VOID = new Expression('void');

/** Returns the text of a complete config of workerd. */
export function configText(config: Fields): string {
  return `using Workerd = import "/workerd/workerd.capnp";\nconst config :Workerd.Config = ${capnp(config)};\n`;
}

/** Returns a value as text, on one line. */
export function capnp(value: CapnpValue): string {
  if (typeof value === 'string') return quote(value);
  if (value instanceof Expression) return value.text;
  if (Array.isArray(value)) return `[${value.map(capnp).join(', ')}]`;
  if (typeof value !== 'object') return String(value);
  const fields = Object.entries(value).map(([name, field]) => `${name} = ${capnp(field)}`);
  return `(${fields.join(', ')})`;
}

/**
 * Returns a string literal. Escapes quotes, backslashes and all bytes that are not printable ASCII, so that no content can
 * end the literal.
 */
function quote(text: string): string {
  let literal = '"';
  for (const byte of Buffer.from(text, 'utf8')) {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c;
    literal += plain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`;
  }
  return `${literal}"`;
}
