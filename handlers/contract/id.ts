// Ids of apps, deploys and all else that gets one.

/** The digits of ids, by their values. */
export const ID_DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';
/** Hexadecimal digits that an id takes: 16 digits of 5 bits. */
const HEX_DIGITS = 20;
const FILLER = '0000000000';

/** A new id: 16 characters of Crockford's base 32, 45 bits of time and 35 random ones, so that ids sort by age. */
export function newId(now = Date.now()): string {
  let id = '';
  for (let shift = 8; shift >= 0; shift--) id += ID_DIGITS[Math.floor(now / 32 ** shift) % 32];
  for (const byte of crypto.getRandomValues(new Uint8Array(7))) id += ID_DIGITS[byte % 32];
  return id;
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
