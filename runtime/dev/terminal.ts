// The output of `cellar dev`: its own steps, the app's log with source positions, and a line for each request.
import { styleText } from 'node:util';
import { eventInput, identifyInput, insightInput } from '../../handlers/contract/telemetry/events.ts';
import type { RequestRecord } from '../edge/log/record.ts';
import { lineSink } from '../fleets/process/cell-output.ts';
import { plainText } from '../processes/lines.ts';
import type { OutputSink } from '../processes/output-sink.ts';
import { SourceStacks } from '../telemetry/errors/source-stacks.ts';
import { type LogRecord, type ReportedByApp, readLine } from '../telemetry/logs/log-lines.ts';
import { LogStacks } from '../telemetry/logs/log-stacks.ts';
import { UncaughtLines } from '../telemetry/logs/uncaught-lines.ts';

const INPUTS = { log: eventInput, identify: identifyInput, insight: insightInput };

type Style = Parameters<typeof styleText>[0];

export class Terminal {
  readonly #uncaught = new UncaughtLines();
  readonly #stacks: LogStacks;

  /** @param releases the directory with the releases of each app */
  constructor(releases: string) {
    this.#stacks = new LogStacks(new SourceStacks(releases), (_, record) => this.#show(record));
  }

  /** Prints a message. Indents all lines after the first. */
  say(words: string, style: Style = 'reset'): void {
    const text = plainText(words).replaceAll('\n', '\n  ');
    process.stdout.write(`${styled('dim', `${clock()} cellar`)} ${styled(style, text)}\n`);
  }

  fail(words: string): void {
    this.say(words, 'red');
  }

  request({ method, path, status, durationMs, refused }: RequestRecord): void {
    const style = status >= 500 ? 'red' : status >= 400 ? 'yellow' : 'green';
    const why = refused === null ? '' : ` (${refused})`;
    const words = `${method} ${plainText(path).slice(0, 200)} ${styled(style, String(status))} ${Math.round(durationMs)} ms${why}`;
    process.stdout.write(`${styled('dim', clock())} ${words}\n`);
  }

  /** Returns the sink for the output of a release's process. */
  output(appId: string, deployId: string): OutputSink {
    return lineSink((line, pipe) => {
      const { record, error, report } = readLine(line, pipe, Date.now());
      if (report !== null) {
        this.say(reportText(report));
        return;
      }
      if (error !== null) this.#uncaught.add(appId, error);
      else if (record.source === 'workerd' && this.#uncaught.repeats(appId, record.text)) return;
      if (record.text !== '') this.#stacks.take(appId, { ...record, release: deployId });
    });
  }

  /** Prints all pending lines. */
  close(): void {
    this.#stacks.end();
  }

  #show({ level, text, source }: LogRecord): void {
    const style = level === 'error' ? 'red' : level === 'warn' ? 'yellow' : 'reset';
    const from = source === 'app' ? '' : `${source}: `;
    process.stdout.write(`${styled('dim', clock())} ${styled(style, from + text)}\n`);
  }
}

/** Formats an event that the app reports, with the errors for which a Cellar would refuse it. */
function reportText({ kind, input }: ReportedByApp): string {
  const { error } = INPUTS[kind].safeParse({ ...(JSON.parse(input) as object), id: 'dev' });
  const wrong = error?.issues.map(({ path, message }) => `\n${path.join('.')}: ${message}`).join('') ?? '';
  return `${kind}: ${input}${wrong}`;
}

/** Formats a duration. */
export function took(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

function clock(): string {
  return new Date().toTimeString().slice(0, 8);
}

function styled(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}
