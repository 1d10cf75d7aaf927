// Parses a store's lists of objects, which are XML. Their content is checked, because names become paths and URLs.
import type { Stored } from './store.ts';

/** Maximum bytes of a list: 1,000 names of 1,024 bytes, each byte perhaps written as an entity, and other fields. */
export const LIST_BYTES = 16 * 2 ** 20;
const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const LAST_CHARACTER = 0x10ffff;

/**
 * Returns the objects in a list. Leaves out names that are not plain (`isPlain`).
 * @param prefix removed from the objects' names. Objects without it are left out
 * @throws {Error} when the size or the time of an object is missing or invalid
 */
export function listEntries(xml: string, prefix: string): Stored[] {
  const entries: Stored[] = [];
  for (const entry of contentsOf(xml, 'Contents')) {
    const key = element(entry, 'Key');
    if (!key.startsWith(prefix) || !isPlain(key)) continue;
    const [size, time] = [element(entry, 'Size'), element(entry, 'LastModified')];
    const [bytes, writtenAt] = [size === '' ? Number.NaN : Number(size), Date.parse(time)];
    if (!Number.isSafeInteger(bytes) || bytes < 0 || Number.isNaN(writtenAt))
      throw new Error(
        `its list has an object without a size or a time: ${JSON.stringify(key.slice(0, 200))}`,
      );
    const etag = element(entry, 'ETag').replaceAll('"', '');
    entries.push({ name: key.slice(prefix.length), bytes, writtenAt, etag });
  }
  return entries;
}

/** Whether a name has neither a NUL nor a segment `.` or `..`. These would change a path or a URL that contains the name. */
export function isPlain(name: string): boolean {
  return !name.includes('\0') && !name.split('/').some((segment) => segment === '.' || segment === '..');
}

/** Returns the folders in a list. @param prefix removed from the folders' names. Folders without it are left out */
export function listFolders(xml: string, prefix: string): string[] {
  return [...contentsOf(xml, 'CommonPrefixes')]
    .map((entry) => element(entry, 'Prefix'))
    .filter((name) => name.startsWith(prefix) && isPlain(name))
    .map((name) => name.slice(prefix.length));
}

/** Yields the content of each element `name`. A regular expression would take quadratic time when end tags are missing. */
function* contentsOf(xml: string, name: string): Generator<string> {
  const [start, last] = [`<${name}>`, `</${name}>`];
  for (let at = xml.indexOf(start); at >= 0; ) {
    const end = xml.indexOf(last, at);
    if (end < 0) return;
    yield xml.slice(at, end);
    at = xml.indexOf(start, end);
  }
}

/** Returns the token that continues a list; null at its end. */
export function nextToken(xml: string): string | null {
  return element(xml, 'NextContinuationToken') || null;
}

/** Returns the text of an XML element without child elements; empty when the element is missing. */
export function element(xml: string, name: string): string {
  const [, text = ''] = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml) ?? [];
  return text.replace(/&(?:#(\d+)|#x([\da-f]+)|(\w+));/gi, (entity, decimal, hexadecimal, word) => {
    if (word !== undefined) return ENTITIES[word] ?? entity;
    const code = decimal ? Number(decimal) : Number.parseInt(hexadecimal, 16);
    return code <= LAST_CHARACTER ? String.fromCodePoint(code) : entity;
  });
}
