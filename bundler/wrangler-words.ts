// What wrangler's reader says of a configuration, so that its author finds the place and the way out.
import { stripVTControlCharacters } from 'node:util';
import { nestedKeys, topLevelKeys } from './wrangler-keys.ts';

export type WranglerError = Error & { location?: { line: number; column: number } };

/** Changes of single characters that a misspelt key may be from the one that was meant. */
const MISSPELT = 2;
const UNEXPECTED = /^Unexpected fields found in (\S+) field: (.*)$/;

/** Why wrangler could not read a configuration. @param file its path, as shown to the author */
export function explain({ message, location }: WranglerError, file: string): string {
  const text = stripVTControlCharacters(message).trim();
  if (location) return `${file}:${location.line}:${location.column}: ${inWords(text)}`;
  return `${file}: ${text.replace(/^Processing .* configuration:\s*/, '').replace(/^ *- /gm, '')}`;
}

/** Its reader of JSON has codes for words, such as `CommaExpected`. */
function inWords(text: string): string {
  if (!/^[A-Z][A-Za-z]+$/.test(text)) return text;
  return text.replace(/(?<!^)[A-Z]/g, ' $&').toLowerCase();
}

/** Whether a warning names keys that no configuration has. */
export function isOfUnknownKeys(warning: string): boolean {
  return UNEXPECTED.test(warning);
}

/** A warning of unknown keys, with the key that each may stand for. */
export function unknownKeys(warning: string): string {
  const [, place = '', list = ''] = UNEXPECTED.exec(warning)!;
  const keys = list.match(/"[^"]*"/g) ?? [];
  const known = Object.keys(
    place === 'top-level' ? topLevelKeys : (nestedKeys[place.replace(/\d+/, '')] ?? {}),
  );
  const told = keys.map((key) => {
    const meant = known.find((candidate) => distance(key.slice(1, -1), candidate) <= MISSPELT);
    return { key, meant: meant === undefined ? null : `did you mean "${meant}"?` };
  });
  const where = place === 'top-level' ? '' : ` in ${place}`;
  if (told.length === 1) {
    const [{ key, meant }] = told as [{ key: string; meant: string | null }];
    return `unknown key ${key}${where}${meant === null ? '' : `; ${meant}`}`;
  }
  return `unknown keys ${told.map(({ key, meant }) => (meant === null ? key : `${key} (${meant})`)).join(', ')}${where}`;
}

/** Characters to put in, leave out or replace to make one text of the other; two that changed places are two. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, n) => n);
  for (const [i, character] of [...one].entries()) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++)
      next.push(Math.min(row[j + 1]! + 1, next[j]! + 1, row[j]! + (character === other[j] ? 0 : 1)));
    row = next;
  }
  return row[other.length]!;
}
