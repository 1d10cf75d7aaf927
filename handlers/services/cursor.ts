// The cursors of lists: opaque to callers, and good for the list that gave them out.
import type { Problem } from '../problem.ts';
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
  throw foreign();
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
