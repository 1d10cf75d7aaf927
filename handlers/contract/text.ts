// Measures and truncates strings and lists.

/**
 * Returns the beginning of a string: at most `length` UTF-16 units, without splitting a surrogate pair, and always valid
 * Unicode.
 * @param mark the text to append when something was cut off
 */
export function cutText(text: string, length: number, mark = ''): string {
  if (text.length <= length) return text.toWellFormed();
  const last = text.charCodeAt(length - 1);
  const splits = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, splits ? length - 1 : length).toWellFormed() + mark;
}

/** Returns the first names of a list, and the number of the others: `a, b and 3 more`. */
export function someOf(names: readonly (string | number)[], count = 5): string {
  const others = names.length - count;
  return names.slice(0, count).join(', ') + (others > 0 ? ` and ${others} more` : '');
}

/** Returns the length of a string in bytes of UTF-8. */
export function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}
