// Slow or failed requests.
import { Head } from '../../layout/head.tsx';
import { type Range, rangeOf, ranges, type Span, tracesModel } from '../../models/telemetry/traces.ts';
import { Segments } from '../../parts/controls/tabs.tsx';
import { IconWaypoints } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { queryOf, setQuery } from '../../router.ts';
import { RequestLink, statusColumn, timeColumns } from './request-columns.tsx';
import { Stages } from './trace.tsx';

const columns = (app: string, longest: number): readonly Column<Span>[] => [
  { name: 'Request', wide: true, cell: (span) => <RequestLink app={app} of={span} /> },
  statusColumn,
  { name: 'Time', silent: true, skipSmall: true, cell: (span) => <Stages span={span} longest={longest} /> },
  ...timeColumns,
];

export default function Traces({ app }: { app: string }) {
  const range = rangeOf(queryOf('hours'));
  return (
    <>
      <Head
        title="Traces"
        about="Requests that took a second or more, or failed: up to 20 a second, and the newest 2,000."
      >
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
            <p>A request appears here if it takes a second or more, or its status is 500 or above.</p>
          </Empty>
        }
      />
    </div>
  );
}
