// A grouped error: its details, frequency and source location.
import { Head } from '../../layout/head.tsx';
import {
  type ErrorStatus,
  errorModel,
  type GroupedError,
  mechanisms,
  type Occurrence,
} from '../../models/telemetry/errors.ts';
import { Sparkline } from '../../parts/charts/sparkline.tsx';
import { Button, Link } from '../../parts/controls/button.tsx';
import { clock, count, exactCount, exactTime, plural } from '../../parts/format.ts';
import {
  IconArrowLeft,
  IconArrowRight,
  IconBan,
  IconCheck,
  IconCircleAlert,
  IconRotateCcw,
} from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Release } from '../../parts/status/release.tsx';
import { Loaded, Notice, SkeletonRows } from '../../parts/status/states.tsx';
import { Badge } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { setQuery } from '../../router.ts';
import { Stack } from './error-stack.tsx';
import { nameOf } from './errors.tsx';

type Model = ReturnType<typeof errorModel>;

export default function ErrorScreen({ app, fingerprint }: { app: string; fingerprint: string }) {
  const model = useModel(() => errorModel(app, fingerprint));
  return (
    <Loaded of={model.group} shape={<SkeletonRows rows={8} />}>
      {(group) => <Shown app={app} group={group} model={model} />}
    </Loaded>
  );
}

const DONE: Record<ErrorStatus, string> = {
  open: 'The error is open again.',
  resolved: 'Resolved. The error opens again if it occurs in a newer release.',
  ignored: 'Ignored. The error is still counted.',
};
const LOOKS = { open: 'danger', resolved: 'accent', ignored: undefined } as const;

function Shown({
  app,
  group,
  model,
}: {
  app: string;
  group: GroupedError & { occurrences: Occurrence[] };
  model: Model;
}) {
  const { status, regressed_at, last_release } = group;
  const change = async (to: ErrorStatus) => {
    await model.setStatus(to);
    toast(DONE[to]);
  };
  const occurrence = model.occurrence.value;
  return (
    <>
      <Head
        title={nameOf(group)}
        status={<Badge look={LOOKS[status]}>{status}</Badge>}
        about={
          <>
            It {mechanisms[group.mechanism] ?? `was noticed by ${group.mechanism}`}
            {group.handler !== null && (
              <>
                {' '}
                in <code>{group.handler}</code>
              </>
            )}
            .
          </>
        }
      >
        {status === 'open' ? (
          <>
            <Button needs="push" onClick={() => change('ignored')}>
              <IconBan /> Ignore
            </Button>
            <Button needs="push" look="primary" onClick={() => change('resolved')}>
              <IconCheck /> Resolve
            </Button>
          </>
        ) : (
          <Button needs="push" onClick={() => change('open')}>
            <IconRotateCcw /> Open again
          </Button>
        )}
      </Head>
      <div class="stack">
        {regressed_at !== null && (
          <Notice look="danger" icon={IconCircleAlert}>
            Seen again <Time at={regressed_at} />
            {last_release !== null && (
              <>
                {' '}
                in <Link to={{ name: 'deploy', app, deploy: last_release }}>a newer release</Link>
              </>
            )}
            , after it was resolved.
          </Notice>
        )}
        <Figures app={app} group={group} />
        {occurrence === null ? (
          <Notice>All its occurrences have been removed.</Notice>
        ) : (
          <>
            <Picker model={model} occurrences={group.occurrences} />
            <section class="panel" aria-label="Stack">
              <header>
                <h2>Stack</h2>
              </header>
              <Stack app={app} frames={model.frames.value} occurrence={occurrence} />
            </section>
            <section class="panel">
              <header>
                <h2>Request</h2>
              </header>
              <Request app={app} occurrence={occurrence} />
            </section>
            <section class="panel">
              <header>
                <h2>Lines of the same request</h2>
                {occurrence.trace_id !== null && (
                  <Link to={{ name: 'logs', app }} query={{ trace: occurrence.trace_id }}>
                    In the log
                  </Link>
                )}
              </header>
              <Before occurrence={occurrence} />
            </section>
          </>
        )}
      </div>
    </>
  );
}

function Figures({ app, group }: { app: string; group: GroupedError & { occurrences: Occurrence[] } }) {
  const { sparkline, first_release, occurrences } = group;
  const traces = new Set(occurrences.map(({ trace_id }) => trace_id).filter((id) => id !== null));
  const today = sparkline.reduce((sum, n) => sum + n, 0);
  return (
    <div class="panel error-figures">
      <div>
        <p class="muted small">Times</p>
        <p class="times" title={exactCount(group.count)}>
          {count(group.count)}
        </p>
      </div>
      <div>
        <p class="muted small">Last 24 hours: {count(today)}</p>
        <Sparkline
          values={sparkline}
          colour="danger"
          width={168}
          height={32}
          label={`${plural(today, 'time')} in the last 24 hours`}
        />
      </div>
      <div>
        <p class="muted small">Requests</p>
        <p>
          {traces.size === 0
            ? 'none known'
            : traces.size === group.count
              ? exactCount(traces.size)
              : `${plural(traces.size, 'request')} in the last ${plural(occurrences.length, 'time')}`}
        </p>
      </div>
      <div>
        <p class="muted small">Seen first</p>
        <p>
          <Time at={group.first_seen_at} />
          {first_release !== null && (
            <>
              {' in '}
              <Link to={{ name: 'deploy', app, deploy: first_release }}>this release</Link>
            </>
          )}
        </p>
      </div>
      <div>
        <p class="muted small">Seen last</p>
        <p>
          <Time at={group.last_seen_at} />
        </p>
      </div>
    </div>
  );
}

/** Buttons that select one of the newest occurrences. */
function Picker({ model, occurrences }: { model: Model; occurrences: readonly Occurrence[] }) {
  const at = model.index.value;
  const go = (n: number) => setQuery({ n: n === 0 ? null : n });
  return (
    <div class="row apart">
      <p>
        {at === 0 ? 'The last time' : `${plural(at, 'time')} before the last`}:{' '}
        <time dateTime={occurrences[at]!.at}>{exactTime(occurrences[at]!.at)}</time>
      </p>
      {occurrences.length > 1 && (
        <div class="row">
          <Button short disabled={at === occurrences.length - 1} onClick={() => go(at + 1)}>
            <IconArrowLeft /> Earlier
          </Button>
          <Button short disabled={at === 0} onClick={() => go(at - 1)}>
            Later <IconArrowRight />
          </Button>
        </div>
      )}
    </div>
  );
}

function Request({ app, occurrence }: { app: string; occurrence: Occurrence }) {
  const { method, path, handler, trace_id, release } = occurrence;
  return (
    <dl class="facts body">
      {method !== null && (
        <>
          <dt>Asked for</dt>
          <dd class="mono">
            {method} {path}
          </dd>
        </>
      )}
      {handler !== null && (
        <>
          <dt>Handler</dt>
          <dd class="mono">{handler}</dd>
        </>
      )}
      <dt>Trace</dt>
      <dd>
        {trace_id === null ? (
          <span class="muted">none: it belongs to no request</span>
        ) : (
          <Link to={{ name: 'trace', app, trace: trace_id }} class="mono">
            {trace_id}
          </Link>
        )}
      </dd>
      <Release app={app} release={release} />
    </dl>
  );
}

function Before({ occurrence }: { occurrence: Occurrence }) {
  if (occurrence.log.length === 0)
    return <p class="body muted">Nothing was printed, or it is older than the log that is kept.</p>;
  return (
    <ol class="lines-before">
      {occurrence.log.map(({ at, level, text }, i) => (
        <li key={`${i} ${at}`} class={`log-line ${level}`}>
          <div class="log-row">
            <time dateTime={at}>{clock(at, { ms: true })}</time>
            <span class="level">{level}</span>
            <span class="said">{text}</span>
          </div>
        </li>
      ))}
    </ol>
  );
}
