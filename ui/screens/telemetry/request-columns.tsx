// Columns of lists of requests.
import type { Span } from '../../models/telemetry/traces.ts';
import { Link } from '../../parts/controls/button.tsx';
import { duration } from '../../parts/format.ts';
import { HttpStatus } from '../../parts/status/http-status.tsx';
import { Time } from '../../parts/status/time.tsx';
import type { Column } from '../../parts/tables/table.tsx';

/** The method and path of a request of an app, as a link to its trace. */
export function RequestLink({ app, of: { method, path, trace_id } }: { app: string; of: Span }) {
  return (
    <Link to={{ name: 'trace', app, trace: trace_id }} class="main-cell cut mono">
      {method} {path}
    </Link>
  );
}

export const statusColumn: Column<Span> = {
  name: 'Status',
  cell: ({ status, refused }) => (
    <span class="row">
      <HttpStatus of={status} />
      {refused !== null && <span class="muted small">{refused}</span>}
    </span>
  ),
};

/** Columns with a request's duration, whether it started the app's process (`cold`), and its time. */
export const timeColumns: readonly Column<Span>[] = [
  { name: 'Took', number: true, cell: ({ duration_ms }) => duration(duration_ms) },
  {
    name: 'Start',
    skipSmall: true,
    cell: ({ cell_start }) =>
      cell_start === 'cold' ? 'cold' : <span class="muted">{cell_start ?? 'none'}</span>,
  },
  { name: 'When', number: true, cell: ({ started_at }) => <Time at={started_at} /> },
];
