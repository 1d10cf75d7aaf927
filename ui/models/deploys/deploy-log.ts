// Splits the log of a deploy into its steps.

export interface LogStep {
  /** `checkout`, `install`, …; `queued` for the wait before the first step. */
  name: string;
  /** Details of the step: `npm ci, 10.9.0, by package-lock.json`. */
  detail: string;
  lines: string[];
}

export interface DeployLog {
  /** Lines before the first step, such as the note that earlier lines were dropped. */
  before: string[];
  steps: LogStep[];
  /** The lines from `deploy failed`, `deploy cancelled` or `superseded by deploy` to the end. */
  end: string[];
}

const STEP = /^▸ ([\w-]+): (.*)$/;
/** The line with which the host ends a step. It is dropped, because the step's time is shown separately. */
const STEP_END = /^ {2}(\w+) (?:took|failed after) [\d.]+ m?s$/;
const END = /^(?:deploy (?:failed|cancelled)|superseded by deploy)\b/;

/** Splits the lines of a log into steps. */
export function parseLog(lines: readonly string[]): DeployLog {
  const log: DeployLog = { before: [], steps: [], end: [] };
  let into = log.before;
  for (const line of lines) {
    const step = STEP.exec(line);
    if (step && into !== log.end) {
      into = [];
      log.steps.push({ name: step[1]!, detail: step[2]!, lines: into });
      continue;
    }
    if (END.test(line)) into = log.end;
    const ended = STEP_END.exec(line)?.[1];
    if (ended !== undefined && ended === log.steps.at(-1)?.name && into !== log.end) continue;
    into.push(line);
  }
  return log;
}

/** Appends streamed lines to a log that was read at the same time. Lines that both have at the seam are kept once. */
export function joinLines(log: readonly string[], more: readonly string[]): string[] {
  for (let both = Math.min(log.length, more.length); both > 0; both--) {
    if (more.slice(0, both).every((line, i) => line === log[log.length - both + i]))
      return [...log, ...more.slice(both)];
  }
  return [...log, ...more];
}

/** Splits the API's text of a log into lines. */
export function linesOf(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n');
}
