// State of the machine: memory by app, disk, and wake times.
import type { ComponentChildren } from 'preact';
import { Head } from '../../layout/head.tsx';
import {
  attention,
  bucketCost,
  type HostStats,
  machineModel,
  memoryParts,
  type Stats,
} from '../../models/machine.ts';
import { Link } from '../../parts/controls/button.tsx';
import { bytes, count, dollars, duration, NONE, percent, plural } from '../../parts/format.ts';
import { IconTriangleAlert } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Loaded, Notice } from '../../parts/status/states.tsx';
import { Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Table } from '../../parts/tables/table.tsx';

export default function Machine() {
  const { stats } = useModel(machineModel);
  return (
    <>
      <Head
        title="Machine"
        {...(stats.data.value?.host && {
          about: (
            <>
              Cellar was started <Time at={stats.data.value.host.started_at} />.
            </>
          ),
        })}
      />
      <Loaded of={stats}>
        {(all) => (
          <div class="stack loose">
            {attention(all).map((sentence) => (
              <Notice key={sentence} look="warn" icon={IconTriangleAlert}>
                {sentence}
              </Notice>
            ))}
            {all.host && <Figures all={all} host={all.host} />}
            {all.host && <Memory host={all.host} />}
            {all.host && <Apps host={all.host} />}
            {all.host?.bucket && <Bucket bucket={all.host.bucket} />}
            {all.host && <Rest all={all} host={all.host} />}
          </div>
        )}
      </Loaded>
    </>
  );
}

function Figure({ title, value, children }: { title: string; value: string; children?: ComponentChildren }) {
  return (
    <li class="panel gauge">
      <h2>{title}</h2>
      <p class="reading">{value}</p>
      <p class="small muted">{children}</p>
    </li>
  );
}

function Figures({ all, host }: { all: Stats; host: HostStats }) {
  const { cells, disk, wakes, event_loop_delay: loop, control_plane } = host;
  return (
    <ul class="gauges">
      <Figure title="Apps running" value={String(cells.running)}>
        of {plural(all.apps.total, 'app')}
      </Figure>
      <Figure title="Disk free" value={bytes(disk.free_bytes)}>
        {bytes(disk.floor_bytes)} must stay free
      </Figure>
      <Figure title="Wakes, p50" value={wakes.p50_ms === null ? NONE : duration(wakes.p50_ms)}>
        {wakes.p99_ms === null
          ? 'none yet'
          : `p99 ${duration(wakes.p99_ms)}, ${plural(wakes.count, 'wake')}, ${count(wakes.failed)} failed`}
      </Figure>
      <Figure title="Delay of the gateway, p99" value={duration(loop.p99_ms)}>
        p50 {duration(loop.p50_ms)}, at most {duration(loop.max_ms)}
      </Figure>
      <Figure title="Open requests" value={count(cells.open_streams)}>
        and WebSockets, to apps
      </Figure>
      <Figure title="Restarts" value={count(control_plane.restarts)}>
        of the control plane, since the start
      </Figure>
    </ul>
  );
}

function Memory({ host }: { host: HostStats }) {
  const { parts, total } = memoryParts(host);
  const { used_bytes: used, limit_bytes: limit } = host.memory;
  const share = (size: number) => `${(size / total) * 100}%`;
  return (
    <section class="panel" aria-labelledby="memory">
      <header>
        <h2 id="memory">Memory</h2>
        <span class={host.memory.over ? 'danger' : 'muted'}>
          {bytes(used)} of {bytes(limit)} ({percent(used / limit)})
        </span>
      </header>
      <div class="body stack">
        <div class="memory-bar" aria-hidden="true">
          {parts.map(({ name, bytes: size, kind }, i) => (
            <span
              key={name}
              class={`part ${kind} tint-${i % 4}`}
              style={{ width: share(size) }}
              title={`${name}: ${bytes(size)}`}
            />
          ))}
          <span class="threshold" style={{ left: share(limit) }} />
        </div>
        <p class="small muted">
          The line is the threshold: above it, apps that use more than their share hibernate when other apps
          must start.
        </p>
        <ul class="legend">
          {parts
            .filter(({ bytes: size }) => size > 0)
            .map(({ name, bytes: size, kind }, i) => (
              <li key={name}>
                <span class={`key part ${kind} tint-${i % 4}`} aria-hidden="true" />
                {kind === 'app' ? <Link to={{ name: 'overview', app: name }}>{name}</Link> : name}
                <span class="muted">{bytes(size)}</span>
              </li>
            ))}
        </ul>
      </div>
    </section>
  );
}

function Apps({ host: { apps } }: { host: HostStats }) {
  if (apps.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="heaviest">
      <header>
        <h2 id="heaviest">Apps by what they use</h2>
      </header>
      <Table
        label="Apps by what they use"
        rows={apps.slice(0, 50)}
        keyOf={({ id }) => id}
        columns={[
          {
            name: 'App',
            wide: true,
            cell: ({ slug }: HostStats['apps'][number]) => (
              // The slug of a preview is `<name>--<slug of its app>`. It links to the app.
              <Link to={{ name: 'overview', app: slug.split('--').at(-1)! }} class="main-cell">
                {slug}
              </Link>
            ),
          },
          {
            name: 'Process',
            cell: ({ memory_bytes }) =>
              memory_bytes === null ? <Status of="sleeping" word="none" /> : <Status of="running" />,
          },
          { name: 'Memory', number: true, label: 'memory', cell: (app) => bytes(app.memory_bytes) },
          { name: 'Disk', number: true, label: 'disk', cell: (app) => bytes(app.disk_bytes) },
        ]}
      />
    </section>
  );
}

type BucketStats = NonNullable<HostStats['bucket']>;

function Bucket({ bucket }: { bucket: BucketStats }) {
  return (
    <section class="panel" aria-labelledby="bucket">
      <header>
        <h2 id="bucket">Requests to the bucket</h2>
        <span class="muted">{bucketCost(bucket)}</span>
      </header>
      {bucket.apps.length > 0 && (
        <Table
          label="Requests to the bucket"
          rows={bucket.apps.slice(0, 50)}
          keyOf={({ id }) => id}
          columns={[
            {
              name: 'App',
              wide: true,
              cell: ({ slug }: BucketStats['apps'][number]) => (
                <Link to={{ name: 'overview', app: slug.split('--').at(-1)! }} class="main-cell">
                  {slug}
                </Link>
              ),
            },
            { name: 'Writes', number: true, label: 'writes', cell: ({ writes }) => count(writes) },
            { name: 'Reads', number: true, label: 'reads', cell: ({ reads }) => count(reads) },
            {
              name: 'A month',
              number: true,
              label: 'cost of a month',
              cell: ({ monthly_usd }) => dollars(monthly_usd),
            },
          ]}
        />
      )}
    </section>
  );
}

function Rest({ all, host }: { all: Stats; host: HostStats }) {
  const { queues, telemetry, snapshots, bucket } = host;
  const sum = (counts: Record<string, number>) => Object.values(counts).reduce((a, b) => a + b, 0);
  const dropped = Object.entries(telemetry.dropped).filter(([, times]) => times > 0);
  return (
    <section class="panel" aria-labelledby="rest">
      <header>
        <h2 id="rest">More figures</h2>
      </header>
      <dl class="facts body">
        <dt>Deploys</dt>
        <dd>
          {plural(queues.deploys_running, 'deploy')} under way, {queues.deploys_waiting} queued,{' '}
          {count(all.deploys.total)} in all
        </dd>
        <dt>Starts that wait</dt>
        <dd>{queues.starts_waiting}</dd>
        <dt>Telemetry</dt>
        <dd>
          {bytes(sum(telemetry.files))} on the disk
          {dropped.length > 0 && `; dropped: ${dropped.map(([name, n]) => `${name} ${count(n)}`).join(', ')}`}
        </dd>
        <dt>Last snapshot</dt>
        <dd>
          <Link to={{ name: 'snapshots' }}>
            <Time at={snapshots.last_at} otherwise="None yet" />
          </Link>
          {snapshots.last_bytes !== null && `, ${bytes(snapshots.last_bytes)}`}
        </dd>
        {bucket !== null && (
          <>
            <dt>Copies of code in the bucket</dt>
            <dd>{bytes(bucket.code_bytes)} on the disk</dd>
          </>
        )}
        <dt>Accounts</dt>
        <dd>{all.accounts}</dd>
        <dt>Domains</dt>
        <dd>{all.domains}</dd>
        <dt>Memory of Cellar itself</dt>
        <dd>{bytes(host.rss_bytes)}</dd>
      </dl>
    </section>
  );
}
