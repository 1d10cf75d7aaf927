// Runs benches and scripts, each in its own process, to show that they still work.
import { execFile } from 'node:child_process';

export interface Program {
  name: string;
  /** The program's file and its arguments. */
  words: string[];
}

export interface Running {
  /** Maximum concurrent programs. */
  atOnce: number;
  /** Timeout of a program in ms; 0: none. After it, the program is killed and counts as failed. */
  deadlineMs: number;
  /** The part of each program's output that is shown. */
  shown: 'all' | 'last line' | 'nothing';
}

const LAST_LINES = 40;
const LINE_CHARACTERS = 160;

/**
 * Runs programs, and sets the exit code. Then prints the end of the output of failed programs. The last line is
 * `N passed, N failed`.
 */
export async function runPrograms(
  programs: readonly Program[],
  { atOnce, deadlineMs, shown }: Running,
): Promise<void> {
  const failures: string[] = [];
  let failed = 0;
  const waiting = [...programs];
  const runNext = async (): Promise<void> => {
    for (let each = waiting.shift(); each !== undefined; each = waiting.shift()) {
      const begun = performance.now();
      const { isRight, lines } = await runOne(each, deadlineMs);
      const seconds = ((performance.now() - begun) / 1000).toFixed(0);
      if (shown === 'all') console.log(lines.join('\n'));
      const last = shown === 'last line' && isRight ? `: ${lines.at(-1)}` : '';
      console.log(
        `${each.name}: ${isRight ? 'ran' : 'FAILED'} (${seconds} s)${last}`.slice(0, LINE_CHARACTERS),
      );
      if (isRight) continue;
      failed++;
      failures.push(`failed: ${each.name}`, ...lines.slice(-LAST_LINES).map((line) => `  ${line}`));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, runNext));
  for (const line of failures) console.log(line);
  console.log(`\n${programs.length - failed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

function runOne({ words }: Program, deadlineMs: number): Promise<{ isRight: boolean; lines: string[] }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      words,
      { maxBuffer: Number.POSITIVE_INFINITY, timeout: deadlineMs },
      (error, stdout, stderr) => {
        const printed = `${stdout}${stderr}${error === null ? '' : how(error)}`;
        resolve({ isRight: error === null, lines: printed.trimEnd().split('\n') });
      },
    );
  });
}

const how = ({ killed, code, signal }: Error & { killed?: boolean; code?: unknown; signal?: unknown }) =>
  killed ? 'it was ended at its deadline' : `it ended with ${code ?? signal}`;
