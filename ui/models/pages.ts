// A list that is read a page at a time, and what is taken away from it.
import { computed, signal } from '@preact/signals';
import { type Resource, resource } from '../live.ts';

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
 * @param options.everyMs reads the first page again so often
 * @param options.grows rows only come, at the beginning: what was read beyond the first page stays when that is read again
 */
export function pages<Item>(
  load: (cursor: string | undefined, signal?: AbortSignal) => Promise<Answer<Item>>,
  keyOf: (item: Item) => string,
  { everyMs, grows = false }: { everyMs?: number; grows?: boolean } = {},
) {
  let hasMoreThanFirst = false;
  const of: Resource<Read<Item>> = resource(
    async (signal) => {
      const { items, next_cursor } = await load(undefined, signal);
      const before = of.data.peek();
      if (!grows || !hasMoreThanFirst || before === null) {
        hasMoreThanFirst = false;
        return { items, next: next_cursor };
      }
      const known = new Set(items.map(keyOf));
      return {
        items: [...items, ...before.items.filter((item) => !known.has(keyOf(item)))],
        next: before.next,
      };
    },
    { ...(everyMs !== undefined && { everyMs }) },
  );
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
      hasMoreThanFirst = true;
      const known = new Set(before.items.map(keyOf));
      of.set({
        items: [...before.items, ...items.filter((item) => !known.has(keyOf(item)))],
        next: next_cursor,
      });
    },
    /** Shows other items in the place of those that were read. */
    set(items: readonly Item[]) {
      const before = of.data.peek();
      if (before !== null) of.set({ ...before, items });
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
