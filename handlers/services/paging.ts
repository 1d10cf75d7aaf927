// Pagination of lists.
import type { Page } from '../../sqlite/control/page.ts';
import { Problem } from '../problem.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';

/** Returns the string after which a page begins, in a list that is ordered by one string. @param list the list's name */
export function pageAfter(
  list: string,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): { after: string; limit: number } {
  return { after: decodeCursor(list, cursor, 1)?.[0] ?? '', limit };
}

/**
 * Returns the output of a list operation.
 * @param list the list's name: its operation, and the id of the app or account that it belongs to
 * @throws {Problem} `app_not_found` when `page` is null, because the app does not exist
 */
export function listAnswer<Row, Item>(
  list: string,
  page: Page<Row> | null,
  show: (row: Row) => Item,
): { items: Item[]; next_cursor: string | null } {
  if (page === null) throw new Problem('app_not_found');
  return { items: page.rows.map(show), next_cursor: encodeCursor(list, page.next) };
}

/** Returns a page of a list in memory, ordered by key. @param list the list's name */
export function pageOf<Item>(
  list: string,
  items: readonly Item[],
  keyOf: (item: Item) => string,
  page: { limit: number; cursor?: string | undefined },
): { items: Item[]; next_cursor: string | null } {
  const { after, limit } = pageAfter(list, page);
  const rest = items
    .filter((item) => keyOf(item) > after)
    .sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
  const shown = rest.slice(0, limit);
  const last = shown.at(-1);
  const next = rest.length > limit && last !== undefined ? [keyOf(last)] : null;
  return { items: shown, next_cursor: encodeCursor(list, next) };
}

/** Returns a row without `created_at`, for records that show only the time of their last change. */
export function withoutCreation<Row extends { created_at: string }>(row: Row): Omit<Row, 'created_at'> {
  const { created_at: _, ...shown } = row;
  return shown;
}
