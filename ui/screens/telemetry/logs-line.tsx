// A log line, with details when it is open.
import { Component } from 'preact';
import { type LogLine, readLine } from '../../models/telemetry/log-line.ts';
import { Copy } from '../../parts/code/code.tsx';
import { Highlighted } from '../../parts/code/highlighted.tsx';
import { Button, Link } from '../../parts/controls/button.tsx';
import { date, dayAndClock, exactTime, firstLine } from '../../parts/format.ts';
import { Release } from '../../parts/status/release.tsx';
import { Places } from '../../parts/tables/places.tsx';
import { setQuery } from '../../router.ts';

const SOURCES: Record<LogLine['source'], string> = {
  app: 'the app',
  workerd: 'workerd, which runs the app',
  build: 'a deploy of the app',
  supervisor: 'Cellar, about the process of the app',
};

interface LineProps {
  app: string;
  line: LogLine;
  search: string;
  isOpen: boolean;
  isNewDay: boolean;
}

/** A line of the log. Rerenders only when one of its props changes, because the log may have 2,000 lines. */
export class Line extends Component<LineProps> {
  override shouldComponentUpdate(next: LineProps) {
    const { line, search, isOpen, isNewDay } = this.props;
    return (
      next.line !== line || next.search !== search || next.isOpen !== isOpen || next.isNewDay !== isNewDay
    );
  }

  override render({ app, line, search, isOpen, isNewDay }: LineProps) {
    const { message, fields } = readLine(line);
    return (
      <li class={`log-line ${line.level}`} data-row>
        {isNewDay && <p class="log-day small muted">{date(line.at)}</p>}
        <button
          type="button"
          class="log-row"
          aria-expanded={isOpen}
          onClick={() => {
            if (getSelection()?.type !== 'Range') setQuery({ line: isOpen ? null : line.id });
          }}
        >
          <time dateTime={line.at}>{dayAndClock(line.at, { ms: true })}</time>
          <span class="level">{line.level}</span>
          <span class="said">
            {line.source !== 'app' && <span class="muted">{line.source} </span>}
            <Highlighted text={isOpen ? firstLine(message) : firstLines(message)} search={search} />
            {!isOpen &&
              fields.map(([name, value]) => (
                <span key={name} class="field-of">
                  {' '}
                  <span class="muted">{name}=</span>
                  <Highlighted text={value} search={search} />
                </span>
              ))}
          </span>
        </button>
        {isOpen && <Details app={app} line={line} fields={fields} />}
      </li>
    );
  }
}

/** Returns the first two lines of a text, such as a stack. */
function firstLines(text: string): string {
  const lines = text.split('\n');
  return lines.length > 2 ? `${lines.slice(0, 2).join('\n')} …` : text;
}

function Details({
  app,
  line,
  fields,
}: {
  app: string;
  line: LogLine;
  fields: readonly (readonly [string, string])[];
}) {
  const { at, source, trace_id, release, text } = line;
  return (
    <div class="log-details">
      <dl class="facts">
        <dt>Time</dt>
        <dd>{exactTime(at)}</dd>
        <dt>Said by</dt>
        <dd>{SOURCES[source]}</dd>
        {trace_id !== null && (
          <>
            <dt>Request</dt>
            <dd class="row">
              <Link to={{ name: 'trace', app, trace: trace_id }} class="mono">
                {trace_id}
              </Link>
              <Button short onClick={() => setQuery({ trace: trace_id }, { push: true })}>
                Only its lines
              </Button>
            </dd>
          </>
        )}
        <Release app={app} release={release} />
        {fields.map(([name, value]) => (
          <>
            <dt key={name} class="mono">
              {name}
            </dt>
            <dd class="mono">{value}</dd>
          </>
        ))}
      </dl>
      {text.includes('\n') && (
        <pre class="log-stack">
          <Places text={text} app={app} />
        </pre>
      )}
      <p class="row">
        <Copy text={text} label="Copy the line" short />
        <span class="muted small">Copy the line</span>
      </p>
    </div>
  );
}
