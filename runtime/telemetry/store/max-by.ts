// Finds the largest entry, such as the app with most data.

/** Returns the entry with the largest `sizeOf`; null for no entries. */
export function maxBy<Entry>(entries: Iterable<Entry>, sizeOf: (entry: Entry) => number): Entry | null {
  let most: Entry | null = null;
  let size = Number.NEGATIVE_INFINITY;
  for (const entry of entries) {
    const its = sizeOf(entry);
    if (its <= size) continue;
    most = entry;
    size = its;
  }
  return most;
}
