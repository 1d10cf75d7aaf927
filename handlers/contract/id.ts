// Ids of apps, deploys and all else that gets one.

/** The digits of ids, by their values. */
export const ID_DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';
/** Hexadecimal digits that an id takes: 16 digits of 5 bits. */
const HEX_DIGITS = 20;
const FILLER = '0000000000';

let latest = { at: -1, random: 0 };

/**
 * A new id: 16 characters of Crockford's base 32, 45 bits of time (milliseconds since 1970) and 35 random ones. Ids of one
 * process sort by age: those of the same millisecond count on from its first one, and while a clock that was set back is behind
 * the last id, the next ones count on from that.
 */
export function newId(now = Date.now()): string {
  latest = now > latest.at ? { at: now, random: randomPart() } : { at: latest.at, random: latest.random + 1 };
  return digits(latest.at, 9) + digits(latest.random, 7);
}

/** 34 random bits: one less than there is room for, so that counting on never overflows. */
function randomPart(): number {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return (high! % 4) * 2 ** 32 + low!;
}

/** The lowest `count` digits of a number, the highest first. */
function digits(value: number, count: number): string {
  let text = '';
  for (let place = count - 1; place >= 0; place--) text += ID_DIGITS[Math.floor(value / 32 ** place) % 32];
  return text;
}

/** A deploy's id as Cloudflare writes ids of versions: a UUID (version 8, whose bits are free). */
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
