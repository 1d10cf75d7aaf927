// Maps keys of objects to names in the store, in the same order. Stores, the bucket proxy and file systems refuse some
// characters, segments and lengths that R2 allows.

/** Segments of a name are about this long, in bytes: MinIO and file systems allow 255. */
const SEGMENT_BYTES = 200;
/** Ends a segment that is followed by another. No encoded character begins with it. */
const NEXT_SEGMENT = '~/';
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ';
/** Sorts after whatever may follow in a name. */
const GREATEST = '\u{10FFFF}';

/**
 * Ranges whose characters are written as two: the range's lead, and a digit for the position in the range. The lead
 * sorts among other characters as the range does, so that the order of keys stays the same.
 */
const RANGES: readonly { first: number; last: number; lead: string }[] = [
  // Control characters, the space, and the lead itself.
  { first: 0, last: 0x21, lead: '!' },
  // `%` begins an escape in URLs.
  { first: 0x24, last: 0x25, lead: '$' },
  // `.` and `/`: a segment may not be empty, `.` or `..`.
  { first: 0x2e, last: 0x2f, lead: '.' },
  // The backslash.
  { first: 0x5b, last: 0x5c, lead: '[' },
  // More control characters.
  { first: 0x7e, last: 0x9f, lead: '~' },
  // The lead itself, and characters that XML cannot contain.
  { first: 0xfffd, last: 0xffff, lead: '\ufffd' },
];

/** Encodes a key, or a prefix of keys. A prefix's name is a prefix of its keys' names. */
export function encodeKey(key: string): string {
  let name = '';
  let bytes = 0;
  for (const character of key.toWellFormed()) {
    if (bytes >= SEGMENT_BYTES) {
      name += NEXT_SEGMENT;
      bytes = 0;
    }
    const encoded = encodeCharacter(character);
    name += encoded;
    bytes += Buffer.byteLength(encoded);
  }
  return name;
}

export function decodeKey(name: string): string {
  let key = '';
  const characters = [...name.replaceAll(NEXT_SEGMENT, '')];
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at]!;
    const range = RANGES.find(({ lead }) => lead === character);
    key += range ? String.fromCharCode(range.first + DIGITS.indexOf(characters[++at] ?? '')) : character;
  }
  return key;
}

/**
 * Returns a name such that all keys from `from` on have greater names. Some lesser keys may have greater names, too.
 * Returns null when no such name is known: then list from the start.
 * @param from bytes to compare with keys in UTF-8; they need not be valid UTF-8
 */
export function nameBefore(from: Buffer): string | null {
  if (from.length === 0) return null;
  const shorter = textOf(from.subarray(0, -1));
  if (from.at(-1) === 0) return shorter === null ? null : encodeKey(shorter);
  const lesser = Buffer.from(from);
  lesser[lesser.length - 1]!--;
  const text = textOf(lesser);
  return text === null ? null : encodeKey(text) + GREATEST;
}

function encodeCharacter(character: string): string {
  const code = character.codePointAt(0)!;
  const range = RANGES.find(({ first, last }) => code >= first && code <= last);
  return range ? range.lead + DIGITS[code - range.first] : character;
}

/** Returns the text of bytes; null when they are not UTF-8. */
function textOf(bytes: Buffer): string | null {
  const text = bytes.toString('utf8');
  return Buffer.from(text, 'utf8').equals(bytes) ? text : null;
}
