// A unified diff, as git writes it, read into files and lines.

export interface DiffLine {
  kind: 'same' | 'added' | 'removed' | 'hunk';
  /** Numbers of the line before and after; null where it is not. */
  before: number | null;
  after: number | null;
  text: string;
}

export interface FilePatch {
  /** After the change; before it, for a file that was deleted. */
  path: string;
  isBinary: boolean;
  lines: DiffLine[];
  /** There are more lines than these. */
  isCut: boolean;
}

/** Lines of one file that are shown. */
const FILE_LINES = 1_500;

/** Reads a diff of git's. */
export function parseDiff(text: string): FilePatch[] {
  const files: FilePatch[] = [];
  let file: FilePatch | null = null;
  let [before, after] = [0, 0];
  let inHunk = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('diff --git ')) {
      file = { path: pathOfHead(line), isBinary: false, lines: [], isCut: false };
      files.push(file);
      inHunk = false;
      continue;
    }
    if (file === null) continue;
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/.exec(line);
    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      inHunk = true;
      add(file, { kind: 'hunk', before: null, after: null, text: hunk[3]! });
    } else if (!inHunk) {
      if (line.startsWith('Binary files ')) file.isBinary = true;
      const named = /^(?:\+\+\+ b|--- a)\/(.*)$/.exec(line)?.[1];
      if (named !== undefined) file.path = named.replace(/\t$/, '');
    } else if (line.startsWith('+')) {
      add(file, { kind: 'added', before: null, after: after++, text: line.slice(1) });
    } else if (line.startsWith('-')) {
      add(file, { kind: 'removed', before: before++, after: null, text: line.slice(1) });
    } else if (line.startsWith(' ')) {
      add(file, { kind: 'same', before: before++, after: after++, text: line.slice(1) });
    }
  }
  return files;
}

function add(file: FilePatch, line: DiffLine) {
  if (file.lines.length < FILE_LINES) file.lines.push(line);
  else file.isCut = true;
}

/** Of `diff --git a/<path> b/<path>`: both are the same, unless a rename follows, whose lines say more. */
function pathOfHead(line: string): string {
  const both = line.slice('diff --git '.length);
  const length = (both.length - 1) / 2;
  return both.slice(length + 1).replace(/^"?b\//, '');
}
