// Pages of a list: a cursor contains the position of the next page.

/** A page of rows; `next` is the position of the next page, null on the last one. */
export interface Page<Row> {
  rows: Row[];
  next: string[] | null;
}

/** Which page to read: at most `limit` rows, after the one that the cursor of the last page names. */
export interface Position {
  after: string;
  limit: number;
}

/**
 * Makes a page of at most `limit` rows. Pass up to `limit + 1` rows: one more than `limit` shows that another page follows.
 * @param place returns the columns that the list is ordered by
 */
export function pageOf<Row>(rows: Row[], limit: number, place: (row: Row) => string[]): Page<Row> {
  if (rows.length <= limit) return { rows, next: null };
  const kept = rows.slice(0, limit);
  return { rows: kept, next: place(kept.at(-1)!) };
}
