// The stack of an error, and the lines of the source that it names.

export interface Frame {
  /** What was called; null for code outside a function. */
  call: string | null;
  /** Where, as the stack says it. */
  place: string;
  /** Of the project: a path in its repository. */
  path: string | null;
  line: number;
}

/** Lines before and after the one that is named. */
const AROUND = 2;
/** What no project has written. */
const FOREIGN = /(?:^|\/)node_modules\/|^(?:node|cloudflare|workerd|internal):|^(?:cellar-|https?:)|^<|^\//;

/** Reads the frames of a stack, in its order. */
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

/** What the host says in a stack that its author may have forgotten; null where it says nothing. */
export function hintIn(stack: string): string | null {
  return /^ {4}\((The app .*)\)$/m.exec(stack)?.[1] ?? null;
}

export interface SourceLine {
  number: number;
  text: string;
  isNamed: boolean;
}

/** The line of a file that a frame names, with two before and two after it; empty when there is no such line. */
export function around(text: string, line: number): SourceLine[] {
  const lines = text.split('\n');
  if (line > lines.length) return [];
  const from = Math.max(1, line - AROUND);
  return lines
    .slice(from - 1, line + AROUND)
    .map((text, i) => ({ number: from + i, text, isNamed: from + i === line }));
}
