// What wrangler's reader says of a configuration, so that its author finds the place and the way out.
import { stripVTControlCharacters } from 'node:util';
import { nestedKeys, topLevelKeys } from './wrangler-keys.ts';

export type WranglerError = Error & { location?: { line: number; column: number } };

/** Changes of single characters that a misspelt key may be from the one that was meant. */
const MISSPELT = 2;
const UNEXPECTED = /^Unexpected fields found in (\S+) field: (.*)$/;

/** What is said of a Worker that is written in Python. */
export const NO_PYTHON = 'Workers in Python are not supported: write it in JavaScript or TypeScript';

/** Why wrangler could not read a configuration. @param file its path, as shown to the author */
export function explain({ message, location }: WranglerError, file: string): string {
  const text = stripVTControlCharacters(message).trim();
  // Its advice, to set a flag, leads nowhere here.
  if (text.includes('python_workers')) return `${file}: ${NO_PYTHON}`;
  if (location) return `${file}:${location.line}:${location.column}: ${inWords(text)}`;
  return `${file}: ${text.replace(/^Processing .* configuration:\s*/, '').replace(/^ *- /gm, '')}`;
}

/** Its reader of JSON has codes for words, such as `CommaExpected`. */
function inWords(text: string): string {
  if (!/^[A-Z][A-Za-z]+$/.test(text)) return text;
  return text.replace(/(?<!^)[A-Z]/g, ' $&').toLowerCase();
}

/** Keys that no configuration has. */
export interface UnknownKeys {
  /** Where they stand, such as `d1_databases[0]`; null: at the top. */
  place: string | null;
  keys: string[];
}

/** The unknown keys that a warning of wrangler's names; null when it warns of something else. */
export function unknownKeysIn(warning: string): UnknownKeys | null {
  const [, place = '', list = ''] = UNEXPECTED.exec(warning) ?? [];
  if (place === '') return null;
  const keys = (list.match(/"[^"]*"/g) ?? []).map((key) => key.slice(1, -1));
  return { place: place === 'top-level' ? null : place, keys };
}

/** A place without the numbers of items, as it is in every configuration. */
export function placeOfAny(place: string): string {
  return place.replace(/\[\d*\]|\{\}/g, '');
}

/** What to say of unknown keys, with the key that each may stand for. */
export function tellUnknown({ place, keys }: UnknownKeys): string {
  const known = Object.keys(place === null ? topLevelKeys : keysAt(placeOfAny(place)));
  const told = keys.map((key) => {
    const meant = known.find((candidate) => distance(key, candidate) <= MISSPELT);
    return meant === undefined ? `"${key}"` : `"${key}" (did you mean "${meant}"?)`;
  });
  return `unknown key${keys.length === 1 ? '' : 's'} ${told.join(', ')}${place === null ? '' : ` in ${place}`}`;
}

function keysAt(place: string): object {
  return Object.entries(nestedKeys).find(([each]) => placeOfAny(each) === place)?.[1] ?? {};
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
