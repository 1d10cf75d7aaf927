// Parts of a paginated list: its table, the button for more, and removal with undo.
import type { ComponentChildren } from 'preact';
import type { Pages } from '../../models/pages.ts';
import { Button } from '../controls/button.tsx';
import { Loaded } from '../status/states.tsx';
import { undoable } from '../status/toast.tsx';
import { Table } from './table.tsx';

/** Button for the next page, if there is one. */
export function More<Item>({ of }: { of: Pages<Item> }) {
  if (!of.hasMore.value) return null;
  return (
    <div class="more">
      <Button onClick={() => of.more()}>Show more</Button>
    </div>
  );
}

/** A list rendered by `children`, with the button for more. `empty` replaces an empty list. `items` default to all. */
export function List<Item>({
  of,
  empty,
  items = of.items.value,
  children,
}: {
  of: Pages<Item>;
  empty: ComponentChildren;
  items?: readonly Item[];
  children: (items: readonly Item[]) => ComponentChildren;
}) {
  return (
    <Loaded of={of.of}>
      {() => (
        <>
          {items.length > 0 ? children(items) : !of.hasMore.value && empty}
          <More of={of} />
        </>
      )}
    </Loaded>
  );
}

/** A paginated table. */
export function Listed<Item>({
  of,
  empty,
  ...table
}: { of: Pages<Item>; empty: ComponentChildren } & Omit<
  Parameters<typeof Table<Item>>[0],
  'rows' | 'keyOf'
>) {
  return <List {...{ of, empty }}>{(items) => <Table rows={items} keyOf={of.keyOf} {...table} />}</List>;
}

/** Hides an item now, and calls `commit` after ten seconds unless the person undoes it. `text` says what was removed. */
export function remove<Item>(of: Pages<Item>, item: Item, text: string, commit: () => Promise<unknown>) {
  const key = of.keyOf(item);
  of.hide(key);
  undoable(
    text,
    async () => {
      await commit();
      of.drop(key);
    },
    () => of.unhide(key),
  );
}
