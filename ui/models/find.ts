// What can be found by typing: apps, their sections, places of the machine, and things to do.

export interface Found {
  /** Where it belongs: the app, or the kind of thing. */
  group: string;
  text: string;
  /** More words by which it is found. */
  also?: string;
  /** It is of the app that one is in. */
  near?: boolean;
  run: () => unknown;
}

/** Most that is shown. */
const SHOWN = 40;

/**
 * Those that have every typed word, the best first: a word at the beginning of the text before one at the beginning of
 * another word, and that before one inside. With nothing typed, all in their order.
 */
export function search<Item extends Pick<Found, 'group' | 'text' | 'also' | 'near'>>(
  items: readonly Item[],
  typed: string,
): Item[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return items.slice(0, SHOWN);
  return items
    .map((item, order) => ({ item, order, score: scoreOf(item, words) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || a.order - b.order)
    .slice(0, SHOWN)
    .map(({ item }) => item);
}

/** 0 when a word is nowhere. */
function scoreOf(
  { group, text, also = '', near = false }: Pick<Found, 'group' | 'text' | 'also' | 'near'>,
  words: string[],
): number {
  let score = 0;
  for (const word of words) {
    const found = Math.max(4 * placeOf(text, word), 3 * placeOf(group, word), 2 * placeOf(also, word));
    if (found === 0) return 0;
    score += found;
  }
  // Of two that have it, that of this app is meant, and then the shorter one.
  return score + (near ? 1 : 0) - text.length / 1_000;
}

function placeOf(text: string, word: string): number {
  const at = text.toLowerCase().indexOf(word);
  if (at === -1) return 0;
  if (at === 0) return 3;
  const begins = text
    .toLowerCase()
    .split(/[\s/·-]+/)
    .some((each) => each.startsWith(word));
  return begins ? 2 : 1;
}
