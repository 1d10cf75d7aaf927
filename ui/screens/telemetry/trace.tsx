// One request: its stages, and its log.
import { Head } from '../../layout/head.tsx';
import type { LogLine } from '../../models/telemetry/log-line.ts';
import {
  barOf,
  type Call,
  callKinds,
  type Span,
  stagesOf,
  timesOf,
  traceModel,
} from '../../models/telemetry/traces.ts';
import { Copy } from '../../parts/code/code.tsx';
import { Link } from '../../parts/controls/button.tsx';
import { bytes, duration } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { HttpStatus } from '../../parts/status/http-status.tsx';
import { Release } from '../../parts/status/release.tsx';
import { Empty, Loaded } from '../../parts/status/states.tsx';
import { Badge } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Places } from '../../parts/tables/places.tsx';

/** The stages of a request as one bar. @param props.longest the duration that fills the whole width, in ms */
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
      {({ spans, calls, lines }) => (
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
                <Empty title="The times of this request are not stored">
                  <p>
                    Times are stored for 24 hours, and longer for requests that took a second or more, or
                    failed. The log lines of the request are below.
                  </p>
                </Empty>
              </div>
            ) : (
              spans.map((span) => <SpanPanel key={span.span_id} app={app} span={span} />)
            )}
            <Calls spans={spans} calls={calls} />
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

/** The calls that the request waited for, in order. */
function Calls({ spans, calls }: { spans: readonly Span[]; calls: readonly Call[] }) {
  const times = timesOf(spans, calls);
  return (
    <section class="panel">
      <header>
        <h2>What the request waited for</h2>
        {calls.length > 0 && <span class="muted small">as the app's process measured it, in whole ms</span>}
      </header>
      {calls.length === 0 ? (
        <p class="body muted">
          No calls were recorded: the request called no storage, object, queue, service or other host, or it
          was left out of the sample.
        </p>
      ) : (
        <div class="body">
          <table class="waterfall calls" aria-label="What the request waited for">
            <tbody>
              {calls.map((call, i) => (
                <CallRow key={`${i} ${call.started_at}`} call={call} times={times} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function CallRow({ call, times }: { call: Call; times: { from: number; to: number } }) {
  const { kind, name, detail, handler, duration_ms, failed } = call;
  const { left, width } = barOf(call, times);
  return (
    <tr data-row>
      <th scope="row">
        <span class="stack lines">
          <span class="row one-line">
            <span class="muted">{callKinds[kind]}</span> <span class="mono">{name}</span>
            {failed && <Badge look="danger">failed</Badge>}
            {handler !== 'fetch' && <span class="small muted">in {handler}</span>}
          </span>
          {detail !== null && <code class="detail small">{detail}</code>}
        </span>
      </th>
      <td class="line" aria-hidden="true">
        <span class="stages">
          <span
            class={failed ? 'call failed-call' : 'call'}
            style={{ left: `${left * 100}%`, width: `max(2px, ${width * 100}%)` }}
          />
        </span>
      </td>
      <td class="number">{duration(duration_ms)}</td>
    </tr>
  );
}

function Lines({ app, lines, begin }: { app: string; lines: readonly LogLine[]; begin: number | null }) {
  if (lines.length === 0)
    return (
      <p class="body muted">
        Nothing was printed during the request, or the request is older than the stored log.
      </p>
    );
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
