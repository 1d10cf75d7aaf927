// Measures and truncates strings.

/**
 * Returns the beginning of a string: at most `length` UTF-16 units, without splitting a surrogate pair, and always valid
 * Unicode.
 * @param mark appended when something was cut off
 */
export function cutText(text: string, length: number, mark = ''): string {
  if (text.length <= length) return text.toWellFormed();
  const last = text.charCodeAt(length - 1);
  const splits = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, splits ? length - 1 : length).toWellFormed() + mark;
}

/** Returns the length of a string in bytes of UTF-8. */
export function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}
