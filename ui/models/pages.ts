// A paginated list. An item can be hidden while it is being removed.
import { computed, signal } from '@preact/signals';
import { type Resource, ROWS, resource } from '../live.ts';

interface Answer<Item> {
  items: Item[];
  next_cursor: string | null;
}

interface Read<Item> {
  items: readonly Item[];
  next: string | null;
}

/**
 * @param load reads one page
 * @param keyOf returns the key of an item
 * @param options.everyMs polling interval of the first page
 * @param options.grows items are only added, at the beginning. A new read of the first page then keeps the later pages,
 * which it drops otherwise. Such a list has at most `ROWS` items.
 */
export function pages<Item>(
  load: (cursor: string | undefined, signal?: AbortSignal) => Promise<Answer<Item>>,
  keyOf: (item: Item) => string,
  { everyMs, grows = false }: { everyMs?: number; grows?: boolean } = {},
) {
  let hasMoreThanFirst = false;
  const most = grows ? ROWS : Number.POSITIVE_INFINITY;
  const of: Resource<Read<Item>> = resource(
    async (signal) => {
      const { items, next_cursor } = await load(undefined, signal);
      const before = of.data.peek();
      if (!grows || !hasMoreThanFirst || before === null) {
        hasMoreThanFirst = false;
        return { items, next: next_cursor };
      }
      const known = new Set(items.map(keyOf));
      const older = before.items.filter((item) => !known.has(keyOf(item)));
      // More than a page was added. The items between it and the older ones are unknown, so the older ones are dropped.
      if (older.length === before.items.length) {
        hasMoreThanFirst = false;
        return { items, next: next_cursor };
      }
      return { items: [...items, ...older].slice(0, most), next: before.next };
    },
    { ...(everyMs !== undefined && { everyMs }) },
  );
  const gone = signal<ReadonlySet<string>>(new Set());
  const unhide = (key: string) => {
    gone.value = new Set([...gone.peek()].filter((each) => each !== key));
  };
  return {
    of,
    keyOf,
    /** All items read, without the hidden ones. */
    items: computed(() => (of.data.value?.items ?? []).filter((item) => !gone.value.has(keyOf(item)))),
    hasMore: computed(
      () => of.data.value !== null && of.data.value.next !== null && of.data.value.items.length < most,
    ),
    /**
     * Reads the next page, if there is one. Drops that page if the list was read again meanwhile and now ends elsewhere.
     * @throws {Failure} when it cannot be read
     */
    async more() {
      const next = of.data.peek()?.next;
      if (!next) return;
      const { items, next_cursor } = await load(next);
      const before = of.data.peek()!;
      if (before.next !== next) return;
      hasMoreThanFirst = true;
      const known = new Set(before.items.map(keyOf));
      of.set({
        items: [...before.items, ...items.filter((item) => !known.has(keyOf(item)))].slice(0, most),
        next: next_cursor,
      });
    },
    /** Replaces the items that were read. */
    set(items: readonly Item[]) {
      const before = of.data.peek();
      if (before !== null) of.set({ ...before, items: items.slice(0, most) });
    },
    /** Hides an item that is being removed. */
    hide(key: string) {
      gone.value = new Set([...gone.peek(), key]);
    },
    unhide,
    /** Drops a hidden item after its removal, and begins to read the list again. */
    drop(key: string) {
      const before = of.data.peek();
      if (before !== null) of.set({ ...before, items: before.items.filter((item) => keyOf(item) !== key) });
      unhide(key);
      void of.refresh();
    },
    refresh: of.refresh,
    close: of.close,
  };
}

export type Pages<Item> = ReturnType<typeof pages<Item>>;

interface Receiver<Item> {
  onItems(items: readonly Item[]): void;
  onReset(): void;
}

/**
 * Keeps a list up to date with a stream. `isNew` returns whether the stream has added an item.
 * @param merge returns the list with the received items in it
 * @param follow follows the stream, and returns a function that ends it
 */
export function streamed<Item>(
  list: Pages<Item>,
  merge: (list: readonly Item[], received: readonly Item[]) => Item[],
  follow: (receiver: Receiver<Item>) => () => void,
) {
  const { keyOf } = list;
  const news = signal<ReadonlySet<string>>(new Set());
  const stop = follow({
    onItems(items) {
      if (items.length === 0 || list.of.data.peek() === null) return;
      const known = new Set(list.items.peek().map(keyOf));
      const added = items.map(keyOf).filter((key) => !known.has(key));
      list.set(merge(list.items.peek(), items));
      if (added.length > 0) news.value = new Set([...news.peek(), ...added]);
    },
    onReset: () => void list.refresh(),
  });
  return {
    list,
    isNew: (item: Item) => news.value.has(keyOf(item)),
    close() {
      stop();
      list.close();
    },
  };
}
