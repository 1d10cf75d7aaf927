// Parses a line for the shell, without running it: its commands and their words.
import { posix } from 'node:path';

/** A step of a line. The steps run one after another. */
export interface ShellStep {
  /** The step as it stands in the line, with its quotes. */
  text: string;
  /** The words of each command, without their quotes. More than one command: `|` or `||` joins them. */
  commands: string[][];
  /** The operator after the step; empty at the end of the line. */
  joint: '&&' | ';' | '&' | '';
}

/** Splits a line into its steps. A group in parentheses is one step. */
export function shellSteps(line: string): ShellStep[] {
  const steps: ShellStep[] = [];
  let texts: string[] = [];
  let start = 0;
  let from = 0;
  const end = (at: number, next: number, joint: ShellStep['joint']) => {
    texts.push(line.slice(from, at));
    const text = line.slice(start, at).trim();
    if (text !== '') steps.push({ text, commands: texts.map(shellWords), joint });
    texts = [];
    start = next;
    from = next;
  };
  for (let at = 0; at < line.length; at++) {
    const pair = line.slice(at, at + 2);
    at = endOfQuoted(line, at);
    if (pair === '&&') end(at, ++at + 1, '&&');
    else if (pair === '||' || line[at] === '|') {
      texts.push(line.slice(from, at));
      if (pair === '||') at++;
      from = at + 1;
    } else if (line[at] === ';' || line[at] === '\n') end(at, at + 1, ';');
    else if (line[at] === '&' && line[at - 1] !== '>' && line[at + 1] !== '>') end(at, at + 1, '&');
  }
  end(line.length, line.length, '');
  return steps;
}

/**
 * Returns the words of a command without quotes. Variables, and commands such as `$(date +%s)`, stay as they are
 * written. Only npm's variable `npm_execpath`, the package manager's program, becomes `npm`.
 */
function shellWords(command: string): string[] {
  return [...command.matchAll(/(?:\$\([^()]*\)|`[^`]*`|"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])+/g)].map(
    ([word]) =>
      word
        .replace(/"((?:\\.|[^"\\])*)"|'([^']*)'|\\(.)/g, (_, double, single, escaped) =>
          double === undefined ? (single ?? escaped) : double.replace(/\\(["\\$`])/g, '$1'),
        )
        .replace(/^\$(?:npm_execpath|\{npm_execpath\})$/, 'npm'),
  );
}

/**
 * Returns the folder after `cd path` in `folder`, relative to where the line started. Returns `.` for a folder above
 * that, and for one that only the shell knows, such as `-` or `$HOME`.
 */
export function enteredFolder(folder: string, path = '~'): string {
  const entered = posix.join(folder, path).replace(/(?<=.)\/$/, '');
  return /^[-/~$`]/.test(path) || /^\.\.(?:\/|$)/.test(entered) ? '.' : entered;
}

/** Returns the content of a step that is a group in parentheses; `null`: it is not a group. */
export function groupIn(text: string): string | null {
  return text.startsWith('(') && endOfQuoted(text, 0) === text.length - 1 ? text.slice(1, -1) : null;
}

/** Returns the index of the last character of the quoted text, group or escaped character at `at`; else `at` itself. */
function endOfQuoted(line: string, at: number): number {
  const character = line[at];
  if (character === '\\') return at + 1;
  if (character === "'" || character === '`') {
    const end = line.indexOf(character, at + 1);
    return end < 0 ? line.length : end;
  }
  const close = character === '"' ? '"' : character === '(' ? ')' : null;
  if (close === null) return at;
  let i = at + 1;
  while (i < line.length && line[i] !== close) {
    const isGroup = close === ')' || line[i] !== '(' || line[i - 1] === '$';
    i = (isGroup && (close === ')' || line[i] !== "'") ? endOfQuoted(line, i) : i) + 1;
  }
  return i;
}
