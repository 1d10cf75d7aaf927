// Places in the source that a text names, such as `src/index.ts:12:9`.

/** A piece of a text; with `path`, a place in the source. */
export interface Piece {
  text: string;
  path?: string;
  line?: number;
}

/** A file of a project with a line, and perhaps a column: `src/index.ts:12:9`, or `src/a.ts(5,10)` as TypeScript has it. */
const PLACE =
  /(\/?(?:[\w@.-]+\/)*[\w@.-]+\.(?:[cm]?[jt]sx?|jsonc?|toml|html|css|sql|vue|svelte|astro|mdx?))(?::(\d+)(?::\d+)?|\((\d+),\d+\))/g;
/** Above the project in a build: what is before it names nothing of the project. */
const ABOVE = /^.*?\/project\//;

/** Cuts a text at the places that it names. Files of packages are none of the project's. */
export function findPlaces(text: string): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const found of text.matchAll(PLACE)) {
    const path = found[1]!.replace(ABOVE, '').replace(/^\.\//, '');
    // Of a package, of the machine, or of an address.
    if (path.includes('node_modules/') || path.startsWith('/') || path.startsWith('..')) continue;
    if (found.index > from) pieces.push({ text: text.slice(from, found.index) });
    pieces.push({ text: found[0], path, line: Number(found[2] ?? found[3]) });
    from = found.index + found[0].length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from) });
  return pieces;
}
