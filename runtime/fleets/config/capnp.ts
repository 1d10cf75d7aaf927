// Writes Cap'n Proto's text format from plain values, so that every string is quoted.

/** A value of a config. Strings are quoted; unquoted text (a name, an embedded file) is an `Expression`. */
export type CapnpValue = string | number | boolean | Expression | CapnpValue[] | Fields;

export type Fields = { [field: string]: CapnpValue };

/** Text that is written unquoted. Made only in this file. */
export class Expression {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** Returns the content of a file, which workerd reads when it starts. `path` is relative to the config. */
export function embed(path: string): Expression {
  return new Expression(`embed ${quote(path)}`);
}

/** The value of a field without content. */
export const VOID = new Expression('void');

/** Returns the text of a whole config of workerd. */
export function configText(config: Fields): string {
  return `using Workerd = import "/workerd/workerd.capnp";\nconst config :Workerd.Config = ${capnp(config)};\n`;
}

/** One value as text, on one line. */
export function capnp(value: CapnpValue): string {
  if (typeof value === 'string') return quote(value);
  if (value instanceof Expression) return value.text;
  if (Array.isArray(value)) return `[${value.map(capnp).join(', ')}]`;
  if (typeof value !== 'object') return String(value);
  const fields = Object.entries(value).map(([name, field]) => `${name} = ${capnp(field)}`);
  return `(${fields.join(', ')})`;
}

/** Returns a string literal. Escapes quotes, backslashes and all bytes that are not printable ASCII: no content can end it. */
function quote(text: string): string {
  let literal = '"';
  for (const byte of Buffer.from(text, 'utf8')) {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c;
    literal += plain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`;
  }
  return `${literal}"`;
}
