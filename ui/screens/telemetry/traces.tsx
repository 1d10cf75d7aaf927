// Slow or failed requests.
import { Head } from '../../layout/head.tsx';
import { type Range, rangeOf, ranges, type Span, tracesModel } from '../../models/telemetry/traces.ts';
import { Link } from '../../parts/controls/button.tsx';
import { Segments } from '../../parts/controls/tabs.tsx';
import { duration } from '../../parts/format.ts';
import { IconWaypoints } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { HttpStatus } from '../../parts/status/http-status.tsx';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { queryOf, setQuery } from '../../router.ts';
import { Stages } from './trace.tsx';

const columns = (app: string, longest: number): readonly Column<Span>[] => [
  {
    name: 'Request',
    wide: true,
    cell: ({ method, path, trace_id }) => (
      <Link to={{ name: 'trace', app, trace: trace_id }} class="main-cell cut mono">
        {method} {path}
      </Link>
    ),
  },
  {
    name: 'Status',
    cell: ({ status, refused }) => (
      <span class="row">
        <HttpStatus of={status} />
        {refused !== null && <span class="muted small">{refused}</span>}
      </span>
    ),
  },
  { name: 'Time', silent: true, skipSmall: true, cell: (span) => <Stages span={span} longest={longest} /> },
  { name: 'Took', number: true, cell: ({ duration_ms }) => duration(duration_ms) },
  {
    name: 'Start',
    skipSmall: true,
    cell: ({ cell_start }) =>
      cell_start === 'cold' ? 'cold' : <span class="muted">{cell_start ?? 'none'}</span>,
  },
  { name: 'When', number: true, cell: ({ started_at }) => <Time at={started_at} /> },
];

export default function Traces({ app }: { app: string }) {
  const range = rangeOf(queryOf('hours'));
  return (
    <>
      <Head title="Traces" about="Requests that took a second or more, or failed.">
        <Segments
          label="How far back"
          value={range}
          onValue={(hours) => setQuery({ hours: hours === '24' ? null : hours })}
          options={ranges}
        />
      </Head>
      <Requests key={range} {...{ app, range }} />
    </>
  );
}

function Requests({ app, range }: { app: string; range: Range }) {
  const { list, longest } = useModel(() => tracesModel(app, range));
  return (
    <div class="panel">
      <Listed
        of={list}
        label="Requests"
        columns={columns(app, longest.value)}
        empty={
          <Empty title="No slow or failed requests" icon={IconWaypoints}>
            <p>Every request of this time was answered in less than a second.</p>
          </Empty>
        }
      />
    </div>
  );
}
