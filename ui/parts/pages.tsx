// What belongs to a list of pages: the button that reads on, and taking a row away with ten seconds to take it back.
import type { Pages } from '../models/pages.ts';
import { Button } from './button.tsx';
import { undoable } from './toast.tsx';

/** Reads the next page, where there is one. */
export function More<Item>({ of }: { of: Pages<Item> }) {
  if (!of.hasMore.value) return null;
  return (
    <div class="more">
      <Button onClick={() => of.more()}>Show more</Button>
    </div>
  );
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
