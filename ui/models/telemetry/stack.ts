// Parses the stack of an error, and finds its source lines.

export interface Frame {
  /** The called function; null for code outside of functions. */
  call: string | null;
  /** The location as in the stack. */
  place: string;
  /** Path in the repository; null for files outside the project. */
  path: string | null;
  line: number;
}

/** Lines of context before and after the named line. */
const AROUND = 2;
/** Matches paths of files outside the project. */
const FOREIGN = /(?:^|\/)node_modules\/|^(?:node|cloudflare|workerd|internal):|^(?:cellar-|https?:)|^<|^\//;

/** Parses the frames of a stack, in order. */
export function parseStack(stack: string): Frame[] {
  return stack.split('\n').flatMap((text) => {
    const found = /^\s+at (?:(.+?) \()?((?:[^()]+?):(\d+):\d+)\)?$/.exec(text);
    if (found === null) return [];
    const [, call, place, line] = found;
    const path = place!.replace(/:\d+:\d+$/, '').replace(/^\.\//, '');
    return [
      { call: call ?? null, place: place!, path: FOREIGN.test(path) ? null : path, line: Number(line) },
    ];
  });
}

/** Returns the hint for the app's author that the host added to a stack; null when there is none. */
export function hintIn(stack: string): string | null {
  return /^ {4}\((The app .*)\)$/m.exec(stack)?.[1] ?? null;
}

export interface SourceLine {
  number: number;
  text: string;
  isNamed: boolean;
}

/** Returns the lines around the one that a frame names; empty when the file has no such line. */
export function around(text: string, line: number): SourceLine[] {
  const lines = text.split('\n');
  if (line > lines.length) return [];
  const from = Math.max(1, line - AROUND);
  return lines
    .slice(from - 1, line + AROUND)
    .map((text, i) => ({ number: from + i, text, isNamed: from + i === line }));
}
