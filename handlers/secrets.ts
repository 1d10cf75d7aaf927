// Creates, hashes and compares API keys and other tokens. Secrets of apps are encrypted in `runtime/apps/secrets.ts`.

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';
const encoder = new TextEncoder();

/** Compares the SHA-256 of two strings in constant time. */
export async function sameSecret(given: string, expected: string): Promise<boolean> {
  const [a, b] = await Promise.all([digest(given), digest(expected)]);
  return crypto.subtle.timingSafeEqual(a, b);
}

/**
 * Returns the SHA-256 of a text in hexadecimal. API keys are stored in this form: they are random, and need no slow hash.
 */
export async function hashOf(text: string): Promise<string> {
  return hexadecimal(await digest(text));
}

export function hexadecimal(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const KEY_PREFIX = 'cellar_';

/** Whether a string begins like an API key. */
export function isApiKey(text: string): boolean {
  return text.startsWith(KEY_PREFIX);
}

/** Returns a new API key with 160 random bits. */
export function newApiKey(): string {
  return KEY_PREFIX + randomDigits();
}

/** Returns a new secret for a link, with 160 random bits. */
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
