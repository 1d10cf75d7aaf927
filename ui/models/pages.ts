// A list that is read a page at a time, and what is taken away from it.
import { computed, signal } from '@preact/signals';
import { resource } from '../live.ts';

interface Answer<Item> {
  items: Item[];
  next_cursor: string | null;
}

interface Read<Item> {
  items: readonly Item[];
  next: string | null;
}

/**
 * @param load one page of it
 * @param keyOf tells one item from another
 * @param options.everyMs reads the first page again so often; for lists that fit in one
 */
export function pages<Item>(
  load: (cursor: string | undefined, signal?: AbortSignal) => Promise<Answer<Item>>,
  keyOf: (item: Item) => string,
  options: { everyMs?: number } = {},
) {
  const of = resource<Read<Item>>(async (signal) => {
    const { items, next_cursor } = await load(undefined, signal);
    return { items, next: next_cursor };
  }, options);
  const gone = signal<ReadonlySet<string>>(new Set());
  return {
    of,
    keyOf,
    /** What has been read, without what is being taken away. */
    items: computed(() => (of.data.value?.items ?? []).filter((item) => !gone.value.has(keyOf(item)))),
    hasMore: computed(() => (of.data.value?.next ?? null) !== null),
    /** Reads the next page. @throws {Failure} */
    async more() {
      const before = of.data.peek();
      if (!before?.next) return;
      const { items, next_cursor } = await load(before.next);
      of.set({ items: [...before.items, ...items], next: next_cursor });
    },
    /** Shows an item as gone. */
    hide(key: string) {
      gone.value = new Set([...gone.peek(), key]);
    },
    unhide(key: string) {
      gone.value = new Set([...gone.peek()].filter((each) => each !== key));
    },
    refresh: of.refresh,
    close: of.close,
  };
}

/** A list of pages. */
export type Pages<Item> = ReturnType<typeof pages<Item>>;
