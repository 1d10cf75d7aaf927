// Texts, measured and cut so that both planes and every reader take them.

/**
 * The beginning of a text: at most `length` UTF-16 units, never half a character, and always valid Unicode.
 * @param mark added when something was cut off
 */
export function cutText(text: string, length: number, mark = ''): string {
  if (text.length <= length) return text.toWellFormed();
  const last = text.charCodeAt(length - 1);
  const splits = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, splits ? length - 1 : length).toWellFormed() + mark;
}

/** How many bytes a text has in UTF-8. */
export function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}
