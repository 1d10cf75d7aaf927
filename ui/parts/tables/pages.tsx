// What belongs to a list of pages: its table, the button that reads on, and taking a row away with ten seconds to take it back.
import type { ComponentChildren } from 'preact';
import type { Pages } from '../../models/pages.ts';
import { Button } from '../controls/button.tsx';
import { Loaded } from '../status/states.tsx';
import { undoable } from '../status/toast.tsx';
import { Table } from './table.tsx';

/** Reads the next page, where there is one. */
export function More<Item>({ of }: { of: Pages<Item> }) {
  if (!of.hasMore.value) return null;
  return (
    <div class="more">
      <Button onClick={() => of.more()}>Show more</Button>
    </div>
  );
}

/** A list as `children` show it. `empty` stands there when it has nothing. `items`: what is shown of it, if not all. */
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

/** A list as a table. */
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

/** Takes an item away: it goes at once, and for good after ten seconds. `text` says what has gone. */
export function remove<Item>(of: Pages<Item>, item: Item, text: string, commit: () => Promise<unknown>) {
  const key = of.keyOf(item);
  of.hide(key);
  undoable(
    text,
    async () => {
      await commit();
      await of.refresh();
      of.unhide(key);
    },
    () => of.unhide(key),
  );
}
