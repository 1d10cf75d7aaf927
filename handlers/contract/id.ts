// Ids of apps, deploys and other records.

/** The digits of ids, in order of their values. */
export const ID_DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';
/** Matches ids. They begin with a time, so their first character is a digit until the year 2318: few slugs look like ids. */
export const idPattern = /^\d[0-9a-hjkmnp-tv-z]{15}$/;
/** Length of an id in hexadecimal digits: 16 digits of 5 bits. */
const HEX_DIGITS = 20;
const FILLER = '0000000000';

let latest = { at: -1, random: 0 };

/**
 * Returns a new id: 16 characters of Crockford's base 32, with 45 bits of time (milliseconds since 1970) and 35 random bits.
 * Ids of one process sort by age. Within a millisecond, or after the clock was set back, the next id is the last one plus one.
 */
export function newId(now = Date.now()): string {
  latest = now > latest.at ? { at: now, random: randomPart() } : { at: latest.at, random: latest.random + 1 };
  return digits(latest.at, 9) + digits(latest.random, 7);
}

/** Returns 34 random bits: one bit less than the field, so that incrementing never overflows. */
function randomPart(): number {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return (high! % 4) * 2 ** 32 + low!;
}

/** Returns the lowest `count` digits of a number, most significant first. */
function digits(value: number, count: number): string {
  let text = '';
  for (let place = count - 1; place >= 0; place--) text += ID_DIGITS[Math.floor(value / 32 ** place) % 32];
  return text;
}

/** Returns the id from which `uuidOf` made a UUID; null for any other UUID. */
export function idOfUuid(uuid: string): string | null {
  const found = /^([0-9a-f]{8})-?([0-9a-f]{4})-?8([0-9a-f]{3})-?8([0-9a-f]{3})-?([0-9a-f]{2})0{10}$/i.exec(
    uuid,
  );
  if (found === null) return null;
  let bits = BigInt(`0x${found.slice(1).join('')}`);
  let id = '';
  for (let at = 0; at < 16; at++) {
    id = ID_DIGITS[Number(bits & 31n)] + id;
    bits >>= 5n;
  }
  return id;
}

/** Formats a deploy's id as Cloudflare's version id: a UUID of version 8, whose bits may be chosen freely. */
export function uuidOf(id: string): string {
  let bits = 0n;
  for (const digit of id) bits = (bits << 5n) | BigInt(ID_DIGITS.indexOf(digit));
  const hex = bits.toString(16).padStart(HEX_DIGITS, '0');
  const [a, b, c, d, e] = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 15),
    hex.slice(15, 18),
    hex.slice(18),
  ];
  return `${a}-${b}-8${c}-8${d}-${e}${FILLER}`;
}
