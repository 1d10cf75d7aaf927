// The cursors of lists: opaque to callers.
import { invalidInput } from '../transports/validate.ts';

export function encodeCursor(place: string[] | null): string | null {
  if (place === null) return null;
  const bytes = new TextEncoder().encode(JSON.stringify(place));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

/**
 * @param parts how many texts the list's place has
 * @throws {Problem} `invalid_input` for one that no list gave out
 */
export function decodeCursor(cursor: string | undefined, parts: number): string[] | null {
  if (cursor === undefined) return null;
  try {
    const bytes = Uint8Array.from(atob(cursor.replaceAll('-', '+').replaceAll('_', '/')), (c) =>
      c.charCodeAt(0),
    );
    const place: unknown = JSON.parse(
      new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes),
    );
    if (Array.isArray(place) && place.length === parts && place.every((part) => typeof part === 'string')) {
      return place;
    }
  } catch {
    // Not one of ours.
  }
  throw invalidInput([{ path: 'cursor', message: 'is not a cursor of this list' }]);
}
