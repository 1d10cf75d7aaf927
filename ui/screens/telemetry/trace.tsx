// One request: its stages, and its log.
import { Head } from '../../layout/head.tsx';
import type { LogLine } from '../../models/telemetry/log-line.ts';
import { type Span, stagesOf, traceModel } from '../../models/telemetry/traces.ts';
import { Copy } from '../../parts/code/code.tsx';
import { Link } from '../../parts/controls/button.tsx';
import { bytes, duration } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { HttpStatus } from '../../parts/status/http-status.tsx';
import { Release } from '../../parts/status/release.tsx';
import { Empty, Loaded } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Places } from '../../parts/tables/places.tsx';

/** The stages of a request as one bar. */
export function Stages({ span, longest }: { span: Span; longest: number }) {
  const share = (ms: number) => `${(ms / longest) * 100}%`;
  const said = stagesOf(span).map(({ name, ms }) => `${name} ${duration(ms)}`);
  return (
    <span class="stages" role="img" aria-label={said.join(', ')} title={said.join('\n')}>
      {stagesOf(span).map(({ kind, from, ms }) => (
        <span key={kind} class={kind} style={{ left: share(from), width: `max(2px, ${share(ms)})` }} />
      ))}
    </span>
  );
}

export default function Trace({ app, trace }: { app: string; trace: string }) {
  const found = useModel(() => traceModel(app, trace));
  return (
    <Loaded of={found}>
      {({ spans, lines }) => (
        <>
          <Head
            title={spans[0] ? `${spans[0].method} ${spans[0].path}` : 'A request'}
            status={spans[0] && <HttpStatus of={spans[0].status} />}
            about={
              <>
                {spans[0] && (
                  <>
                    <Time at={spans[0].started_at} />, took {duration(spans[0].duration_ms)} · trace{' '}
                  </>
                )}
                <code>{trace}</code>
                <Copy text={trace} label="Copy the id of the trace" short />
              </>
            }
          />
          <div class="stack">
            {spans.length === 0 ? (
              <div class="panel">
                <Empty title="Its times are not kept">
                  <p>
                    They are kept of requests that took a second or more, or failed. What was said during it
                    is beneath.
                  </p>
                </Empty>
              </div>
            ) : (
              spans.map((span) => <SpanPanel key={span.span_id} app={app} span={span} />)
            )}
            <section class="panel">
              <header>
                <h2>Lines of the log</h2>
                {lines.length > 0 && (
                  <Link to={{ name: 'logs', app }} query={{ trace }}>
                    In the log
                  </Link>
                )}
              </header>
              <Lines app={app} lines={lines} begin={spans[0] ? Date.parse(spans[0].started_at) : null} />
            </section>
          </div>
        </>
      )}
    </Loaded>
  );
}

function SpanPanel({ app, span }: { app: string; span: Span }) {
  const { refused, bytes_in, bytes_out, cell_start, release, parent_span_id } = span;
  return (
    <section class="panel" aria-label="Times">
      <div class="body stack">
        <table class="waterfall">
          <tbody>
            {stagesOf(span).map(({ name, kind, from, ms }) => (
              <tr key={kind}>
                <th scope="row">{name}</th>
                <td class="line" aria-hidden="true">
                  <span class="stages">
                    <span
                      class={kind}
                      style={{
                        left: `${(from / span.duration_ms) * 100}%`,
                        width: `max(2px, ${(ms / span.duration_ms) * 100}%)`,
                      }}
                    />
                  </span>
                </td>
                <td class="number">{duration(ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <dl class="facts">
          {refused !== null && (
            <>
              <dt>Refused</dt>
              <dd>{refused}: the gateway answered, not the app</dd>
            </>
          )}
          {cell_start !== null && (
            <>
              <dt>Process</dt>
              <dd>{cell_start === 'cold' ? 'was started for this request' : 'ran already'}</dd>
            </>
          )}
          <dt>Bytes</dt>
          <dd>
            {bytes(bytes_in)} in, {bytes(bytes_out)} out
          </dd>
          <Release app={app} release={release} />
          {parent_span_id !== null && (
            <>
              <dt>Sent by</dt>
              <dd>
                the span <code>{parent_span_id}</code> of another service
              </dd>
            </>
          )}
        </dl>
      </div>
    </section>
  );
}

function Lines({ app, lines, begin }: { app: string; lines: readonly LogLine[]; begin: number | null }) {
  if (lines.length === 0)
    return <p class="body muted">Nothing was printed during it, or it is older than the log that is kept.</p>;
  const from = begin ?? Date.parse(lines[0]!.at);
  return (
    <ol class="lines-before">
      {lines.map(({ id, at, level, text }) => (
        <li key={id} class={`log-line ${level}`}>
          <div class="log-row">
            <time dateTime={at}>+{duration(Math.max(0, Date.parse(at) - from))}</time>
            <span class="level">{level}</span>
            <span class="said">
              <Places text={text} app={app} />
            </span>
          </div>
        </li>
      ))}
    </ol>
  );
}
