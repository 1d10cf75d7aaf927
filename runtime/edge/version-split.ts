// Chooses one of the two versions that share the requests of an app: by headers that Cloudflare documents, else at random.
import { hash } from 'node:crypto';
import { headerValue } from './http/head/fields.ts';

/** Requests with the same key go to the same version, as long as the share is the same. */
const KEY_HEADER = 'cloudflare-workers-version-key';
/** Names a version for each Worker: `my-worker="<version id>", other="<version id>"`. */
const OVERRIDES_HEADER = 'cloudflare-workers-version-overrides';
/** Longest part of either header that is parsed, in characters, because clients choose the header's length. */
const LENGTH = 1_024;
const OVERRIDE = /^[ \t]*([a-z0-9_.*-]+)[ \t]*=[ \t]*"([^"]*)"[ \t]*$/;

/** How two versions share the requests of an app. */
export interface VersionSplit {
  /** The name of the app in the header of overrides. */
  slug: string;
  /** The version id of the live release: a UUID. */
  first: string;
  /** The version id of the other version: a UUID. */
  second: string;
  /** The percentage of the requests without an override that go to the second version. */
  share: number;
}

/** Returns whether a request goes to the second version. @param headers alternating names and values */
export function goesToSecond(
  headers: readonly string[],
  { slug, first, second, share }: VersionSplit,
): boolean {
  const overrides = headerValue(headers, OVERRIDES_HEADER);
  const wanted = overrides === undefined ? undefined : overrideOf(overrides, slug);
  if (wanted === second) return true;
  if (wanted === first) return false;
  const key = headerValue(headers, KEY_HEADER);
  return (key === undefined ? Math.random() : fractionOf(key)) * 100 < share;
}

function overrideOf(dictionary: string, slug: string): string | undefined {
  for (const entry of dictionary.slice(0, LENGTH).split(',')) {
    const [, name, version] = OVERRIDE.exec(entry) ?? [];
    if (name === slug) return version;
  }
  return undefined;
}

/** Maps a key to a number from 0 to 1, always the same. A key stays with the second version when its share grows. */
function fractionOf(key: string): number {
  return hash('sha256', key.slice(0, LENGTH), 'buffer').readUInt32BE() / 2 ** 32;
}
