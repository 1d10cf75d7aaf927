// Finds source locations in a text, such as `src/index.ts:12:9`.

/** A part of a text; with `path`, a source location. */
export interface Piece {
  text: string;
  path?: string;
  line?: number;
}

/** A path with a line and an optional column: `src/index.ts:12:9`, or `src/a.ts(5,10)` from TypeScript. */
const PLACE =
  /(\/?(?:[\w@.-]+\/)*[\w@.-]+\.(?:[cm]?[jt]sx?|jsonc?|toml|html|css|sql|vue|svelte|astro|mdx?))(?::(\d+)(?::\d+)?|\((\d+),\d+\))/g;
/** The part of a path that names the project's folder in a build. It is removed. */
const ABOVE = /^.*?\/project\//;

/** Splits a text at its locations in the project's source. */
export function findPlaces(text: string): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const found of text.matchAll(PLACE)) {
    const path = found[1]!.replace(ABOVE, '').replace(/^\.\//, '');
    // Skips files of packages, files of the machine, and URLs.
    if (path.includes('node_modules/') || path.startsWith('/') || path.startsWith('..')) continue;
    if (found.index > from) pieces.push({ text: text.slice(from, found.index) });
    pieces.push({ text: found[0], path, line: Number(found[2] ?? found[3]) });
    from = found.index + found[0].length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from) });
  return pieces;
}
