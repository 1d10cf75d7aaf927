// Comparing and storing secrets.

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';
const encoder = new TextEncoder();

/** Compares in a time that tells nothing, lengths included. */
export async function sameSecret(given: string, expected: string): Promise<boolean> {
  const [a, b] = await Promise.all([digest(given), digest(expected)]);
  return crypto.subtle.timingSafeEqual(a, b);
}

/** SHA-256 in hexadecimal: how API keys are stored. They are random, so nothing slower is needed. */
export async function hashOf(text: string): Promise<string> {
  const bytes = new Uint8Array(await digest(text));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const KEY_PREFIX = 'cellar_';

/** Whether a text could be an API key, and is worth looking up. */
export function isApiKey(text: string): boolean {
  return text.startsWith(KEY_PREFIX);
}

/** A new API key: 160 random bits. */
export function newApiKey(): string {
  return KEY_PREFIX + randomDigits();
}

/** The secret of a link: 160 random bits. */
export function newLinkSecret(): string {
  return randomDigits();
}

function randomDigits(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return Array.from(bytes, (byte) => DIGITS[byte % 32]).join('');
}

function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest('SHA-256', encoder.encode(text));
}
