// Lists: from the input's page to the answer's.
import type { Page } from '../../sqlite/control/page.ts';
import { Problem } from '../problem.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';

/**
 * The place to begin at of a list that is ordered by one text.
 * @param list as given to `listAnswer`
 */
export function pageAfter(
  list: string,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): { after: string; limit: number } {
  return { after: decodeCursor(list, cursor, 1)?.[0] ?? '', limit };
}

/**
 * The answer of a list.
 * @param list names the list: its operation, and whose list it is
 * @throws {Problem} `app_not_found` when there is no page, for want of an app
 */
export function listAnswer<Row, Item>(
  list: string,
  page: Page<Row> | null,
  show: (row: Row) => Item,
): { items: Item[]; next_cursor: string | null } {
  if (page === null) throw new Problem('app_not_found');
  return { items: page.rows.map(show), next_cursor: encodeCursor(list, page.next) };
}

/**
 * A page of a list that is at hand as a whole, in the order of its keys.
 * @param list as given to `listAnswer`
 */
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

/** Leaves out when a row was made, for records that only tell when they last changed. */
export function withoutCreation<Row extends { created_at: string }>(row: Row): Omit<Row, 'created_at'> {
  const { created_at: _, ...shown } = row;
  return shown;
}
