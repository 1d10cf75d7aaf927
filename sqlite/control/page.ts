// Pages of a list: the place to go on from, hidden in a cursor.

/** A page of rows; `next` is the place after it, null on the last page. */
export interface Page<Row> {
  rows: Row[];
  next: string[] | null;
}

/**
 * Cuts a page from rows that were read one further than asked for.
 * @param place the columns that the list is ordered by
 */
export function pageOf<Row>(rows: Row[], limit: number, place: (row: Row) => string[]): Page<Row> {
  if (rows.length <= limit) return { rows, next: null };
  const kept = rows.slice(0, limit);
  return { rows: kept, next: place(kept.at(-1)!) };
}
