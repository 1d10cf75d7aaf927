// The cursors of lists: opaque to callers, and good for the list that gave them out.
import { invalidInput } from '../transports/validate.ts';

/** @param list names the list: its operation, and whose list it is */
export function encodeCursor(list: string, place: string[] | null): string | null {
  if (place === null) return null;
  const bytes = new TextEncoder().encode(JSON.stringify([list, ...place]));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

/**
 * @param list as given to `encodeCursor`
 * @param parts how many texts the list's place has
 * @throws {Problem} `invalid_input` when the text is no cursor, or one of another list
 */
export function decodeCursor(list: string, cursor: string | undefined, parts: number): string[] | null {
  if (cursor === undefined) return null;
  try {
    const bytes = Uint8Array.from(atob(cursor.replaceAll('-', '+').replaceAll('_', '/')), (c) =>
      c.charCodeAt(0),
    );
    const [of, ...place] = JSON.parse(
      new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes),
    ) as unknown[];
    if (of === list && place.length === parts && place.every((part) => typeof part === 'string')) {
      return place;
    }
  } catch {
    // Not one of ours.
  }
  throw invalidInput([{ path: 'cursor', message: 'is not a cursor of this list' }]);
}
