// Pages of a list: a cursor contains the position of the last row of a page.

/** A page of rows. `next`: the position of its last row, after which the next page starts; null on the last page. */
export interface Page<Row> {
  rows: Row[];
  next: string[] | null;
}

/** Which page to read: at most `limit` rows, after the row that the cursor of the previous page names. */
export interface Position {
  after: string;
  limit: number;
}

/**
 * Makes a page of at most `limit` rows. Pass up to `limit + 1` rows: one more than `limit` shows that another page follows.
 * @param place returns a row's values of the columns that order the list
 */
export function pageOf<Row>(rows: Row[], limit: number, place: (row: Row) => string[]): Page<Row> {
  if (rows.length <= limit) return { rows, next: null };
  const kept = rows.slice(0, limit);
  return { rows: kept, next: place(kept.at(-1)!) };
}
