// Ids of apps, deploys and all else that gets one.

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';

/** A new id: 16 characters of Crockford's base 32, 45 bits of time and 35 random ones, so that ids sort by age. */
export function newId(now = Date.now()): string {
  let id = '';
  for (let shift = 8; shift >= 0; shift--) id += DIGITS[Math.floor(now / 32 ** shift) % 32];
  for (const byte of crypto.getRandomValues(new Uint8Array(7))) id += DIGITS[byte % 32];
  return id;
}
