// Which app has most of something.

/** The entry for which `sizeOf` is largest; null when there is none. */
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
