// All apps, with those that need attention.
import { Head } from '../../layout/head.tsx';
import { type App, appsModel, attention, errorRate, isIdle, type sumsOf } from '../../models/apps.ts';
import { Figure, Figures } from '../../parts/charts/figure.tsx';
import { Meter } from '../../parts/charts/meter.tsx';
import { Sparkline } from '../../parts/charts/sparkline.tsx';
import { Link, LinkButton } from '../../parts/controls/button.tsx';
import { Search } from '../../parts/controls/field.tsx';
import { bytes, count, duration, firstLine, percent, person, plural } from '../../parts/format.ts';
import { IconBox, IconPlus, IconTriangleAlert } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Loaded, Skeleton } from '../../parts/status/states.tsx';
import { AppStatus, Badge, Status } from '../../parts/status/status.tsx';
import { Age, Time } from '../../parts/status/time.tsx';
import { type Column, Table } from '../../parts/tables/table.tsx';
import { queryOf, setQuery } from '../../router.ts';
import { ownsApps } from '../../session.ts';
import { Deleted } from './deleted.tsx';

const columns: readonly Column<App>[] = [
  { name: 'App', cell: (app) => <Name app={app} /> },
  { name: 'Status', cell: (app) => <Word app={app} /> },
  { name: 'Requests, 24 h', skipSmall: true, cell: (app) => <Requests app={app} /> },
  { name: 'Errors', number: true, label: 'errors', cell: ({ figures }) => <ErrorRate figures={figures} /> },
  {
    name: 'p99',
    number: true,
    label: 'p99',
    cell: ({ figures }) => dashed(figures?.duration_ms_p99 ?? null, duration),
  },
  { name: 'Memory', number: true, cell: ({ figures }) => dashed(figures?.memory_bytes ?? null, bytes) },
  { name: 'Last deploy', wide: true, cell: (app) => <LastDeploy app={app} /> },
];

export default function Apps() {
  const { apps, shown, sums } = useModel(appsModel);
  const isEmpty = apps.data.value?.items.length === 0;
  return (
    <>
      <Head title="Apps">
        {!isEmpty && <Search label="Filter apps" value={queryOf('q')} onValue={(q) => setQuery({ q })} />}
        {!isEmpty && ownsApps.value && (
          <LinkButton to={{ name: 'new' }} look="primary">
            <IconPlus /> New app
          </LinkButton>
        )}
      </Head>
      <Loaded of={apps} shape={<Shape />}>
        {({ items, more }) =>
          items.length === 0 ? (
            <div class="stack">
              <First />
              <Deleted apps={apps} />
            </div>
          ) : (
            <div class="stack">
              <Sums sums={sums.value} />
              <div class="panel">
                {shown.value.length === 0 ? (
                  <Empty title={`Nothing fits “${queryOf('q')}”`}>
                    <p>Searched the names, states and last deploys of {plural(items.length, 'app')}.</p>
                  </Empty>
                ) : (
                  <Table label="Apps" columns={columns} rows={shown.value} keyOf={({ id }) => id} />
                )}
              </div>
              {more && <p class="muted">These are the newest {items.length}. ⌘K finds the others by name.</p>}
              <Deleted apps={apps} />
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function Sums({ sums }: { sums: ReturnType<typeof sumsOf> }) {
  const { total, awake, perMinute, memory, machine, attention: wanting } = sums;
  return (
    <Figures>
      <Figure name="Running" value={awake} note={`of ${plural(total, 'app')}`} />
      <Figure
        name="Memory of apps"
        value={bytes(memory)}
        note={
          machine && (
            <>
              <Meter used={machine.used_bytes} limit={machine.limit_bytes} />
              {bytes(machine.used_bytes)} of {bytes(machine.limit_bytes)} in use
            </>
          )
        }
      />
      <Figure name="Requests a minute" value={count(perMinute)} note="in the last whole minute" />
      <Figure
        name="Needs attention"
        value={wanting.length === 0 ? 'Nothing' : count(wanting.length)}
        look={wanting.length > 0 ? 'danger' : undefined}
        note={
          wanting.length === 0
            ? 'all apps are well'
            : wanting
                .slice(0, 3)
                .map((app) => app.slug)
                .join(', ')
        }
      />
    </Figures>
  );
}

function Name({ app }: { app: App }) {
  const why = attention(app);
  return (
    <span class="app-name">
      <AppStatus of={app.status} isIdle={isIdle(app)} silent />
      <Link to={{ name: 'overview', app: app.slug }} class="main-cell">
        {app.slug}
      </Link>
      {app.maintenance && <Badge look="warn">maintenance</Badge>}
      {why && (
        <span class="danger" title={`${app.slug}: ${why}`}>
          <IconTriangleAlert size={14} />
          <span class="unseen">{why}</span>
        </span>
      )}
    </span>
  );
}

/** The app's status as text. The shape of the status is beside the app's name. */
function Word({ app }: { app: App }) {
  const { status, asleep_since } = app;
  if (status === 'sleeping' && asleep_since !== null)
    return (
      <span class="muted nowrap">
        sleeping for <Age since={asleep_since} />
      </span>
    );
  if (isIdle(app)) return <span class="muted">idle</span>;
  return <span class={status === 'crashed' ? 'danger' : undefined}>{status}</span>;
}

function Requests({ app: { slug, figures } }: { app: App }) {
  if (figures === null) return <span class="muted none">–</span>;
  const sum = figures.requests.reduce((all, each) => all + each, 0);
  return (
    <span class="row tight-row">
      <Sparkline values={figures.requests} label={`${plural(sum, 'request')} of ${slug} in 24 h, by hour`} />
      <span class="muted">{sum > 0 ? count(sum) : ''}</span>
    </span>
  );
}

function ErrorRate({ figures }: { figures: App['figures'] }) {
  const rate = errorRate(figures);
  if (rate === null) return <span class="muted none">–</span>;
  return <span class={rate >= 0.01 ? 'danger' : rate === 0 ? 'muted' : undefined}>{percent(rate)}</span>;
}

function dashed(value: number | null, say: (value: number) => string) {
  return value === null ? <span class="muted none">–</span> : say(value);
}

function LastDeploy({ app: { slug, last_deploy } }: { app: App }) {
  if (last_deploy === null) return <span class="muted">not deployed yet</span>;
  const { id, message, author, status, at } = last_deploy;
  const isPlain = status === 'live' || status === 'replaced';
  return (
    <span class="last-deploy">
      {!isPlain && <Status of={status} silent={status === 'superseded'} />}
      <Link to={{ name: 'deploy', app: slug, deploy: id }} class="cut quiet-link">
        {firstLine(message)}
      </Link>
      <span class="muted small nowrap">
        {person(author)}, <Time at={at} />
      </span>
    </span>
  );
}

function First() {
  if (!ownsApps.value)
    return (
      <div class="panel">
        <Empty title="No apps" icon={IconBox}>
          <p>You are a guest here, and no longer have a role on the app that you were invited to.</p>
        </Empty>
      </div>
    );
  return (
    <div class="panel">
      <Empty title="No apps yet" icon={IconBox}>
        <p>
          An app begins with a name. Then you push code to it, or take a template, and it is live a few
          seconds later.
        </p>
        <LinkButton to={{ name: 'new' }} look="primary">
          <IconPlus /> Make the first app
        </LinkButton>
      </Empty>
    </div>
  );
}

function Shape() {
  return (
    <div class="stack">
      <Skeleton height={92} />
      <Skeleton height={320} />
    </div>
  );
}
