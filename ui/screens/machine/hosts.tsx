// The hosts of a Cellar that runs on several machines: their state and load, their apps, and draining.
import { Head } from '../../layout/head.tsx';
import { appsOfHostModel, attention, type Host, hostsModel, isClockOff, loadOf } from '../../models/hosts.ts';
import { Meter } from '../../parts/charts/meter.tsx';
import { Button, Link, RemoveButton } from '../../parts/controls/button.tsx';
import { bytes, NONE, percent, plural } from '../../parts/format.ts';
import { IconNetwork, IconTriangleAlert } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Notice } from '../../parts/status/states.tsx';
import { Status } from '../../parts/status/status.tsx';
import { Age } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { queryOf } from '../../router.ts';

type Model = ReturnType<typeof hostsModel>;

export default function Hosts() {
  const model = useModel(hostsModel);
  const { hosts } = model;
  const shown = hosts.items.value.find(({ id }) => id === queryOf('host'));
  return (
    <>
      <Head title="Hosts" about="The machines of this Cellar. Each app runs on one of them." />
      <div class="stack loose">
        {attention(hosts.items.value).map((sentence) => (
          <Notice key={sentence} look="warn" icon={IconTriangleAlert}>
            {sentence}
          </Notice>
        ))}
        <div class="panel">
          <Listed
            of={hosts}
            label="Hosts"
            columns={columnsOf(model)}
            isSelected={({ id }) => id === shown?.id}
            empty={
              <Empty title="This Cellar is on one machine" icon={IconNetwork}>
                <p>
                  With a bucket and <code>RUNNER_ADDRESS</code>, more machines can serve the same apps.
                </p>
              </Empty>
            }
          />
        </div>
        {shown && <Apps key={shown.id} host={shown} />}
      </div>
    </>
  );
}

function columnsOf(model: Model): readonly Column<Host>[] {
  return [
    {
      name: 'Host',
      cell: ({ id, name, address }) => (
        <>
          <Link to={{ name: 'hosts' }} query={{ host: id }} class="main-cell">
            {name}
          </Link>
          <div class="small muted">{address}</div>
        </>
      ),
    },
    { name: 'State', cell: (host) => <State host={host} /> },
    { name: 'Version', skipSmall: true, cell: ({ version }) => version },
    { name: 'Memory', label: 'memory', cell: (host) => <Memory host={host} /> },
    { name: 'Processors', label: 'processors', cell: (host) => <Processors host={host} /> },
    { name: 'Disk', label: 'disk', cell: (host) => <Disk host={host} /> },
    { name: 'Clock', number: true, skipSmall: true, cell: (host) => <Clock host={host} /> },
    { name: 'Apps', number: true, label: 'apps', cell: (host) => <Count host={host} /> },
    { name: 'What to do', silent: true, cell: (host) => <Actions {...{ model, host }} /> },
  ];
}

function State({ host: { state, silent_since, started_at } }: { host: Host }) {
  if (state === 'silent')
    return (
      <>
        <Status of="crashed" word="silent" />
        <div class="small muted nowrap">
          for <Age since={silent_since!} />
        </div>
      </>
    );
  return (
    <>
      {state === 'active' ? <Status of="running" word="active" /> : <Status of="starting" word="draining" />}
      <div class="small muted nowrap">
        up for <Age since={started_at} />
      </div>
    </>
  );
}

function Memory({ host }: { host: Host }) {
  const load = loadOf(host);
  if (load === null) return NONE;
  return <Used limit={load.memory_total_bytes} free={load.memory_free_bytes} />;
}

function Processors({ host }: { host: Host }) {
  const load = loadOf(host);
  if (load === null) return NONE;
  return (
    <span class="nowrap">
      <Meter used={load.cpu} limit={1} />
      {percent(load.cpu)}
    </span>
  );
}

function Disk({ host }: { host: Host }) {
  const load = loadOf(host);
  if (load === null) return NONE;
  return <Used limit={load.disk_total_bytes} free={load.disk_free_bytes} />;
}

function Used({ limit, free }: { limit: number; free: number }) {
  return (
    <>
      <Meter used={limit - free} limit={limit} />
      <div class="small muted nowrap">
        {bytes(limit - free)} of {bytes(limit)}
      </div>
    </>
  );
}

function Clock({ host }: { host: Host }) {
  const { clock_ahead_ms: ms } = host;
  if (ms === null) return NONE;
  return (
    <span class={isClockOff(host) ? 'danger' : undefined} title="ahead of the bucket’s">
      {`${ms >= 0 ? '+' : '−'}${(Math.abs(ms) / 1_000).toFixed(1)}\u00a0s`}
    </span>
  );
}

function Count({ host }: { host: Host }) {
  const { apps, local_apps } = host;
  const load = loadOf(host);
  return (
    <>
      {apps}
      {load !== null && <div class="small muted nowrap">{load.running} running</div>}
      {local_apps > 0 && <div class="small muted nowrap">{local_apps} cannot move</div>}
    </>
  );
}

function Actions({ model, host }: { model: Model; host: Host }) {
  const { id, name, state } = host;
  const hasOther = model.hosts.items.value.some((other) => other.id !== id && other.state === 'active');
  const drain = async (drains: boolean) => {
    await model.drain(id, drains);
    toast(drains ? `The apps of ${name} move to other hosts` : `${name} gets new apps again`);
  };
  if (state === 'silent')
    return (
      <RemoveButton
        label={`Remove ${name}`}
        onClick={() => remove(model.hosts, host, `${name} is removed`, () => model.remove(id))}
      />
    );
  return state === 'draining' ? (
    <Button short onClick={() => drain(false)}>
      Undo
    </Button>
  ) : (
    <Button short disabled={!hasOther} onClick={() => drain(true)}>
      Drain
    </Button>
  );
}

function Apps({ host }: { host: Host }) {
  const apps = useModel(() => appsOfHostModel(host.id));
  return (
    <section class="panel" aria-labelledby="apps">
      <header>
        <h2 id="apps">Apps of {host.name}</h2>
        <span class="muted">{plural(host.apps, 'app')}</span>
      </header>
      <Listed
        of={apps}
        label={`Apps of ${host.name}`}
        columns={[
          {
            name: 'App',
            wide: true,
            cell: ({ slug }) => (
              <Link to={{ name: 'overview', app: slug }} class="main-cell">
                {slug}
              </Link>
            ),
          },
          { name: 'Status', cell: ({ status }) => <Status of={status} /> },
          {
            name: 'Data',
            cell: ({ storage }) => (
              <span class="nowrap">
                {storage === 'bucket' ? 'in the bucket' : 'on this host: it cannot move'}
              </span>
            ),
          },
        ]}
        empty={<p class="nothing muted">None. New apps go to the host with most free memory.</p>}
      />
    </section>
  );
}
