// How Git hosts sign the deliveries of their webhooks.
import { sameSecret } from '../secrets.ts';
import { fromBase64 } from '../services/base64.ts';

/** Largest difference between the signed time and now, in s, as in Standard Webhooks. */
const TOLERANCE_S = 300;
const encoder = new TextEncoder();

/** The signature of a delivery. */
export interface Signature {
  /** The time or id in authenticated headers: differs between two deliveries with the same body. Empty without such a header. */
  identity: string;
  /**
   * Returns whether the signature can be valid, by the headers alone. Call it before `signs`, which does not repeat this
   * check.
   */
  isPlausible: (secret: string) => Promise<boolean>;
  /** Returns whether the signature of the body is valid. */
  signs: (secret: string, body: Uint8Array) => Promise<boolean>;
}

const always = () => Promise.resolve(true);

/**
 * Headers with an HMAC of the body in hexadecimal, each with the text before the digits. Only the first present header
 * counts.
 */
const HEXADECIMAL = [
  ['x-forgejo-signature', ''],
  ['x-gitea-signature', ''],
  ['x-hub-signature-256', 'sha256='],
  // Bitbucket's header. GitHub sends a header of this name with SHA-1, but always together with `x-hub-signature-256`.
  ['x-hub-signature', 'sha256='],
] as const;

/** Returns the signature in a delivery's headers; null for none. @param now in ms since 1970 */
export function signatureOf(headers: Headers, now = Date.now()): Signature | null {
  const standard = headers.get('webhook-signature');
  if (standard !== null) return standardSignature(headers, standard, now);
  for (const [name, prefix] of HEXADECIMAL) {
    const given = headers.get(name);
    if (given === null) continue;
    const bytes = given.startsWith(prefix) ? fromHexadecimal(given.slice(prefix.length)) : null;
    return {
      identity: '',
      isPlausible: () => Promise.resolve(bytes !== null),
      signs: (secret, body) => verify(encoder.encode(secret), bytes!, body),
    };
  }
  const token = headers.get('x-gitlab-token');
  if (token === null) return null;
  // With a secret token, GitLab signs nothing. The token authenticates the sender, so this trusts `x-gitlab-event-uuid`.
  const identity = headers.get('x-gitlab-event-uuid') ?? '';
  return { identity, isPlausible: (secret) => sameSecret(token, secret), signs: always };
}

/**
 * Returns a signature of Standard Webhooks, which GitLab uses for its signing tokens. The signed text is `id.time.body`, so
 * an old delivery can be detected.
 */
function standardSignature(headers: Headers, given: string, now: number): Signature {
  const id = headers.get('webhook-id') ?? '';
  const time = headers.get('webhook-timestamp') ?? '';
  const isFresh = /^\d{1,12}$/.test(time) && Math.abs(now / 1000 - Number(time)) <= TOLERANCE_S;
  const signatures = given
    .split(' ')
    .slice(0, 8)
    .flatMap((each) => decoded(/^v1,([A-Za-z\d+/]{43}=)$/, each) ?? []);
  return {
    identity: time,
    isPlausible: () => Promise.resolve(isFresh && signatures.length > 0),
    signs: async (secret, body) => {
      const signed = concat(encoder.encode(`${id}.${time}.`), body);
      const key =
        decoded(/^whsec_((?:[A-Za-z\d+/]{4})+(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=)?)$/, secret) ??
        encoder.encode(secret);
      const right = await Promise.all(signatures.map((each) => verify(key, each, signed)));
      return right.includes(true);
    },
  };
}

/** Checks an HMAC with SHA-256, in constant time. */
async function verify(key: Uint8Array, signature: Uint8Array, signed: Uint8Array): Promise<boolean> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', key, algorithm, false, ['verify']);
  return crypto.subtle.verify('HMAC', imported, signature, signed);
}

function fromHexadecimal(text: string): Uint8Array | null {
  if (!/^[\da-f]{64}$/i.test(text)) return null;
  return Uint8Array.from(text.match(/../g)!, (digits) => Number.parseInt(digits, 16));
}

/** Decodes base64 in the first group of a pattern; null when the text does not match. */
function decoded(pattern: RegExp, text: string): Uint8Array | null {
  const found = pattern.exec(text)?.[1];
  return found === undefined ? null : fromBase64(found);
}

function concat(one: Uint8Array, other: Uint8Array): Uint8Array {
  const whole = new Uint8Array(one.length + other.length);
  whole.set(one);
  whole.set(other, one.length);
  return whole;
}
