// Scans JSON texts before they are parsed.

/**
 * Returns whether a JSON text has at most `most` of the given characters, such as `{[,`. Ignores characters in strings. This
 * count limits the time and memory of parsing better than the number of bytes does.
 */
export function hasAtMost(most: number, characters: string, text: string): boolean {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (character === '"') at = endOfString(text, at);
    else if (characters.includes(character) && ++count > most) return false;
  }
  return true;
}

/** Returns where the string that starts at `start` has its closing quote; without one, the text's length. */
export function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text[at - 1 - backslashes] === '\\') backslashes++;
    if (backslashes % 2 === 0) return at;
  }
  return text.length;
}
