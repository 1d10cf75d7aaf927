// Compares a version with a range of npm's, such as `^9 || >=10.1`.

/**
 * Returns whether a range contains a version. Labels of pre-releases do not count, and a word that is no version contains all.
 * @param version such as `10.34.8`; its major is above 0
 */
export function isInRange(version: string, range: string): boolean {
  return range.split('||').some((alternative) =>
    alternative
      .replace(/(\S+)\s+-\s+(\S+)/g, '>=$1 <=$2')
      .replace(/([<>=^~])\s+/g, '$1')
      .trim()
      .split(/\s+/)
      .every((word) => isInWord(numbersOf(version), word)),
  );
}

function isInWord(version: number[], word: string): boolean {
  const [, operator, text = ''] = /^([<>]=?|[=^~]?)(.*)$/.exec(word) ?? [];
  const bound = numbersOf(text);
  // Only the numbers that the bound names are compared: `<=9` and `9.x` contain 9.15.9, and `>9` does not.
  const first = bound.findIndex((number, index) => number !== version[index]);
  const order = first === -1 ? 0 : version[first]! - bound[first]!;
  if (bound.length === 0) return true;
  if (operator === '>') return order > 0;
  if (operator === '<') return order < 0;
  if (operator === '>=') return order >= 0;
  if (operator === '<=') return order <= 0;
  if (operator === '^') return order >= 0 && first !== 0;
  if (operator === '~') return order >= 0 && (first === -1 || first === 2);
  return order === 0;
}

/** Returns the numbers before the first part that is none: two for `9.1.x`, none for `*`. */
function numbersOf(text: string): number[] {
  const numbers = text
    .replace(/^v/, '')
    .split('.', 3)
    .map((part) => Number.parseInt(part, 10));
  const end = numbers.findIndex(Number.isNaN);
  return end === -1 ? numbers : numbers.slice(0, end);
}
