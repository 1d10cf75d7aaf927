// Parses git's unified diffs.

export interface DiffLine {
  kind: 'same' | 'added' | 'removed' | 'hunk';
  /** Line number before the change; null for an added line and for `hunk`. */
  before: number | null;
  /** Line number after the change; null for a removed line and for `hunk`. */
  after: number | null;
  text: string;
}

export interface FilePatch {
  /** Path after the change; for a deleted file, before it. */
  path: string;
  isBinary: boolean;
  lines: DiffLine[];
  /** Whether `lines` is truncated. */
  isCut: boolean;
}

/** Maximum lines shown of one file. */
const FILE_LINES = 1_500;

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

/** Returns the path in `diff --git a/<path> b/<path>`, if both are equal. For a rename, the line `+++` gives the path. */
function pathOfHead(line: string): string {
  const both = line.slice('diff --git '.length);
  const length = (both.length - 1) / 2;
  return both.slice(length + 1).replace(/^"?b\//, '');
}
