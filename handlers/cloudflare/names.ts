// Converts names and ids between Cloudflare's form and ours.
import { slug } from '../contract/apps/apps.ts';
import { ID_DIGITS } from '../contract/id.ts';
import { CloudflareError, CODES } from './codes.ts';

/** @throws {CloudflareError} for a name that is not a valid slug, with a suggestion */
export function requireSlug(name: string): void {
  const result = slug.safeParse(name);
  if (result.success) return;
  const { message } = result.error.issues[0]!;
  throw new CloudflareError(
    400,
    CODES.BAD_REQUEST,
    `The name ${JSON.stringify(name)} is the first part of the app's address, and ${message}; ${JSON.stringify(similarSlug(name))} would do.`,
  );
}

/** Returns the valid slug that is closest to a name. */
export function similarSlug(name: string): string {
  const plain = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '');
  if (slug.safeParse(plain).success) return plain;
  return `${plain.slice(0, 36)}-app`.replace(/^-/, '');
}

/** Inverse of `uuidOf`. @throws {CloudflareError} for a UUID that `uuidOf` did not make */
export function idOf(uuid: string): string {
  const found = /^([0-9a-f]{8})-?([0-9a-f]{4})-?8([0-9a-f]{3})-?8([0-9a-f]{3})-?([0-9a-f]{2})0{10}$/i.exec(
    uuid,
  );
  if (found === null) throw new CloudflareError(404, CODES.VERSION_NOT_FOUND, `There is no version ${uuid}.`);
  let bits = BigInt(`0x${found.slice(1).join('')}`);
  let id = '';
  for (let at = 0; at < 16; at++) {
    id = ID_DIGITS[Number(bits & 31n)] + id;
    bits >>= 5n;
  }
  return id;
}
