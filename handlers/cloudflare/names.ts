// Converts names and ids between Cloudflare's form and ours.
import { slug } from '../contract/apps/apps.ts';
import { idOfUuid } from '../contract/id.ts';
import { CloudflareError, CODES } from './codes.ts';

/** Checks that a name is a valid slug. @throws {CloudflareError} that suggests a similar slug */
export function requireSlug(name: string): void {
  const result = slug.safeParse(name);
  if (result.success) return;
  const { message } = result.error.issues[0]!;
  throw new CloudflareError(
    400,
    CODES.BAD_REQUEST,
    `The name ${JSON.stringify(name)} ${message}, because it is the first part of the app's address; use a name such as ${JSON.stringify(similarSlug(name))}.`,
  );
}

/** Returns a slug that is similar to a name, as a suggestion. */
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

/** Returns the id of a version, by its UUID. @throws {CloudflareError} for a UUID that no version can have */
export function idOf(uuid: string): string {
  const id = idOfUuid(uuid);
  if (id === null) throw new CloudflareError(404, CODES.VERSION_NOT_FOUND, `There is no version ${uuid}.`);
  return id;
}
