// Reads the answers of stores to lists of objects.
import type { Stored } from './store.ts';

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** Returns the objects in a list. @param prefix that is left out of their names */
export function listEntries(xml: string, prefix: string): Stored[] {
  return [...xml.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, entry]) => ({
    name: element(entry!, 'Key').slice(prefix.length),
    bytes: Number(element(entry!, 'Size')),
    writtenAt: Date.parse(element(entry!, 'LastModified')),
    etag: element(entry!, 'ETag').replaceAll('"', ''),
  }));
}

/** Returns the folders in a list. @param prefix that is left out of their names */
export function listFolders(xml: string, prefix: string): string[] {
  return [...xml.matchAll(/<CommonPrefixes>(.*?)<\/CommonPrefixes>/gs)].map(([, entry]) =>
    element(entry!, 'Prefix').slice(prefix.length),
  );
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
    return String.fromCodePoint(decimal ? Number(decimal) : Number.parseInt(hexadecimal, 16));
  });
}
