// The cursors of lists: opaque to callers, and good for the list that gave them out.
import type { Problem } from '../problem.ts';
import { invalidInput } from '../transports/validate.ts';

/** Stands behind the name of the list, and between the texts of a place. */
const END = '\0';

/**
 * Its length has a bound, `CURSOR_LENGTH`, because names of lists and places have: nothing in them is escaped.
 * @param list names the list: its operation, and whose list it is
 * @param place where the list goes on; only a text that is alone may have any character
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
 * @param list as given to `encodeCursor`
 * @param parts how many texts the list's place has
 * @throws {Problem} `invalid_input` when the text is no cursor, or one of another list
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

/** Null when it is no cursor. */
function textOf(cursor: string): string | null {
  try {
    const binary = atob(cursor.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/**
 * The same of a list whose place is whole numbers from 0.
 * @throws {Problem} `invalid_input`
 */
export function decodeNumbers(list: string, cursor: string | undefined, parts: number): number[] | null {
  const place = decodeCursor(list, cursor, parts);
  if (place === null) return null;
  if (!place.every((part) => /^\d{1,15}$/.test(part))) throw foreign();
  return place.map(Number);
}

function foreign(): Problem {
  return invalidInput([{ path: 'cursor', message: 'is not a cursor of this list' }]);
}
