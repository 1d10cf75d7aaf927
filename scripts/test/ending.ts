// Formats the end of a test run, so that it alone shows which tests were skipped, and why others failed.
import { relative, resolve } from 'node:path';
import { inspect, stripVTControlCharacters } from 'node:util';

export interface Skip {
  name: string;
  reason: string;
}

export interface Failure {
  name: string;
  file: string;
  line: number;
  /** The test's error, or the runner's message. */
  error: unknown;
}

const WIDTH = 160;
/** Characters of a reason that are shown and compared. A reason may end with a path that differs in each process. */
const REASON_CHARACTERS = 100;
const ERROR_LINES = 40;
const ERROR_LINE_CHARACTERS = 300;

/** Lists the skipped tests by reason. Only lines with test names are indented. */
export function skippedLines(skips: readonly Skip[]): string[] {
  const byReason = Map.groupBy(skips, ({ reason }) => cut(reason, REASON_CHARACTERS));
  return [...byReason].flatMap(([reason, those]) => [
    `skipped, ${those.length}: ${reason}`,
    ...inLines(those.map(({ name }) => name)),
  ]);
}

/**
 * Lists the failures with the first lines of their error. Tests with the same error share one entry.
 * @param said output lines of each file's process, which explain the failure of a whole file
 */
export function failedLines(
  failures: readonly Failure[],
  said: ReadonlyMap<string, readonly string[]>,
): string[] {
  const textOf = ({ name, file, error }: Failure) => {
    const text = typeof error === 'string' ? error : inspect(error);
    return isWhole(name, file) ? [text, ...(said.get(file) ?? [])].join('\n') : text;
  };
  return [...Map.groupBy(failures, textOf)].flatMap(([text, those]) => [
    ...those.map(({ name, file, line }) =>
      isWhole(name, file)
        ? `failed: ${relative('.', file)} as a whole`
        : `failed: ${name} (${relative('.', file)}:${line})`,
    ),
    ...firstLines(text).map((each) => `  ${each}`),
  ]);
}

/** Whether a failure is outside of tests. The runner then reports the file's path as the name. */
const isWhole = (name: string, file: string) => resolve(name) === file;

function firstLines(text: string): string[] {
  const lines = stripVTControlCharacters(text)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const shown = lines.slice(0, ERROR_LINES).map((line) => cut(line, ERROR_LINE_CHARACTERS));
  if (lines.length > ERROR_LINES) shown.push(`… ${lines.length - ERROR_LINES} more lines are above`);
  return shown;
}

function inLines(names: string[]): string[] {
  const lines: string[] = [];
  for (const name of names) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + name.length < WIDTH) lines[lines.length - 1] = `${last}; ${name}`;
    else lines.push(`  ${name}`);
  }
  return lines;
}

const cut = (text: string, characters: number) =>
  text.length > characters ? `${text.slice(0, characters)}…` : text;
