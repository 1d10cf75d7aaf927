// Search over apps, their sections, screens of the machine, and actions.

export interface Found {
  /** Shown beside the text: the app's slug, or the kind of entry. */
  group: string;
  text: string;
  /** More words that match. */
  also?: string;
  /** Whether it belongs to the current app. */
  near?: boolean;
  run: () => unknown;
}

/** Maximum results. */
const RESULTS_LIMIT = 40;

/**
 * Returns the items that contain every typed word, highest score first. With nothing typed, keeps the order. A match scores
 * 3 at the start of a string, 2 at the start of a word, 1 inside a word; times 4 in `text`, 3 in `group`, 2 in `also`.
 */
export function search<Item extends Pick<Found, 'group' | 'text' | 'also' | 'near'>>(
  items: readonly Item[],
  typed: string,
): Item[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return items.slice(0, RESULTS_LIMIT);
  return items
    .map((item, order) => ({ item, order, score: scoreOf(item, words) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || a.order - b.order)
    .slice(0, RESULTS_LIMIT)
    .map(({ item }) => item);
}

/** Returns the score of an item; 0 when a word does not match. */
function scoreOf(
  { group, text, also = '', near = false }: Pick<Found, 'group' | 'text' | 'also' | 'near'>,
  words: string[],
): number {
  let score = 0;
  for (const word of words) {
    const found = Math.max(
      4 * matchScore(text, word),
      3 * matchScore(group, word),
      2 * matchScore(also, word),
    );
    if (found === 0) return 0;
    score += found;
  }
  // At an equal score, prefers the current app, then the shorter text.
  return score + (near ? 1 : 0) - text.length / 1_000;
}

function matchScore(text: string, word: string): number {
  const at = text.toLowerCase().indexOf(word);
  if (at === -1) return 0;
  if (at === 0) return 3;
  const begins = text
    .toLowerCase()
    .split(/[\s/·-]+/)
    .some((each) => each.startsWith(word));
  return begins ? 2 : 1;
}

/** Returns a key for each item. Items may have the same group and text, such as two databases of one name. */
export function keysOf(items: readonly Pick<Found, 'group' | 'text'>[]): string[] {
  const counts = new Map<string, number>();
  return items.map(({ group, text }) => {
    const words = `${group}\n${text}`;
    const count = counts.get(words) ?? 0;
    counts.set(words, count + 1);
    return `${count} ${words}`;
  });
}
