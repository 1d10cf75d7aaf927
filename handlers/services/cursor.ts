// Cursors of lists. They are opaque to callers, and valid only for the list that returned them.
import type { Problem } from '../problem.ts';
import { invalidInput } from '../transports/validate.ts';

/** Separates the list's name and the strings of the position. */
const END = '\0';

/**
 * Returns a cursor. It has at most `CURSOR_LENGTH` characters, because names and positions are bounded and nothing is
 * escaped.
 * @param list the list's name: its operation, and the id of the app or account that it belongs to
 * @param place the position at which the list continues; null at its end. If it has several strings, they must not contain
 *   NUL
 */
export function encodeCursor(list: string, place: string[] | null): string | null {
  if (place === null) return null;
  const bytes = new TextEncoder().encode([list, ...place].join(END));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

/**
 * Returns the position in a cursor, or null without a cursor.
 * @param list the list's name, as for `encodeCursor`
 * @param parts number of strings in the list's positions
 * @throws {Problem} `invalid_input` when the cursor is invalid or belongs to another list
 */
export function decodeCursor(list: string, cursor: string | undefined, parts: number): string[] | null {
  if (cursor === undefined) return null;
  const text = textOf(cursor);
  if (!text?.startsWith(list + END)) throw foreign();
  const rest = text.slice(list.length + END.length);
  const place = parts === 1 ? [rest] : rest.split(END);
  if (place.length !== parts) throw foreign();
  return place;
}

/** Returns null for invalid base64 or UTF-8. */
function textOf(cursor: string): string | null {
  try {
    const binary = atob(cursor.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Like `decodeCursor`, for a position of whole numbers that are not negative. @throws {Problem} `invalid_input` */
export function decodeNumbers(list: string, cursor: string | undefined, parts: number): number[] | null {
  const place = decodeCursor(list, cursor, parts);
  if (place === null) return null;
  if (!place.every((part) => /^\d{1,15}$/.test(part))) throw foreign();
  return place.map(Number);
}

function foreign(): Problem {
  return invalidInput([{ path: 'cursor', message: 'is not a cursor of this list' }]);
}
