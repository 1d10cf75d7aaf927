// Requests that were slow or failed.
import { Head } from '../layout/head.tsx';
import { ranges, type Span, tracesModel } from '../models/traces.ts';
import { Button, Link } from '../parts/button.tsx';
import { duration } from '../parts/format.ts';
import { HttpStatus } from '../parts/http-status.tsx';
import { IconWaypoints } from '../parts/icons.tsx';
import { useModel } from '../parts/model.ts';
import { Empty, Loaded } from '../parts/states.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Segments } from '../parts/tabs.tsx';
import { Time } from '../parts/time.tsx';
import { setQuery } from '../router.ts';
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
  const { range, list, rows, longest, hasOlder, readOlder } = useModel(() => tracesModel(app));
  return (
    <>
      <Head title="Traces" about="Requests that took a second or more, or failed.">
        <Segments
          label="How far back"
          value={range.value}
          onValue={(hours) => setQuery({ hours: hours === '24' ? null : hours })}
          options={ranges}
        />
      </Head>
      <div class="panel">
        <Loaded of={list}>
          {() =>
            rows.value.length === 0 ? (
              <Empty title="No slow or failed requests" icon={IconWaypoints}>
                <p>Every request of this time was answered in less than a second.</p>
              </Empty>
            ) : (
              <>
                <Table
                  label="Requests"
                  columns={columns(app, longest.value)}
                  rows={rows.value}
                  keyOf={({ span_id }) => span_id}
                />
                {hasOlder.value && (
                  <footer class="more">
                    <Button look="quiet" onClick={readOlder}>
                      Show older requests
                    </Button>
                  </footer>
                )}
              </>
            )
          }
        </Loaded>
      </div>
    </>
  );
}
