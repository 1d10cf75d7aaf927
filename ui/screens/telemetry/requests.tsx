// The requests of an app, newest first.
import { useEffect, useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import {
  durations,
  methods,
  type Request,
  type RequestFilter,
  requestsModel,
  starts,
  statuses,
} from '../../models/telemetry/requests.ts';
import { Button } from '../../parts/controls/button.tsx';
import { Search, Select } from '../../parts/controls/field.tsx';
import { Segments } from '../../parts/controls/tabs.tsx';
import { plural } from '../../parts/format.ts';
import { IconArrowLeftRight } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Notice } from '../../parts/status/states.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { queryOf, setQuery } from '../../router.ts';
import { RequestLink, statusColumn, timeColumns } from './request-columns.tsx';

/** Debounce of typing, in ms, before the server is asked. */
const DEBOUNCE_MS = 300;

const columns = (app: string): readonly Column<Request>[] => [
  {
    name: 'Request',
    wide: true,
    cell: (request) => (
      <span class="stack lines">
        <RequestLink app={app} of={request} />
        {request.skipped > 0 && (
          <span class="small muted">{plural(request.skipped, 'request')} before this one not listed</span>
        )}
      </span>
    ),
  },
  statusColumn,
  ...timeColumns,
];

export default function Requests({ app }: { app: string }) {
  const filter: RequestFilter = {
    path: queryOf('path'),
    method: queryOf('method'),
    status: queryOf('status'),
    slow: queryOf('slow'),
    start: queryOf('start'),
  };
  return (
    <>
      <Head
        title="Requests"
        about="Requests of the last 24 hours: up to 100 a second, and the newest 50,000. Open one to see what it waited for."
      />
      <Filters filter={filter} />
      <Matching key={JSON.stringify(filter)} app={app} filter={filter} />
    </>
  );
}

function Filters({ filter }: { filter: RequestFilter }) {
  const [path, setPath] = useState(filter.path);
  useEffect(() => {
    const timer = setTimeout(() => path !== queryOf('path') && setQuery({ path }), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [path]);
  useEffect(() => setPath(filter.path), [filter.path]);
  return (
    <div class="filters">
      <Search label="Part of the path" value={path} onValue={setPath} />
      <Segments
        label="Status"
        value={filter.status as ''}
        onValue={(status) => setQuery({ status })}
        options={statuses}
      />
      <Select
        label="Method"
        unlabelled
        value={filter.method}
        onValue={(method) => setQuery({ method })}
        options={[['', 'Any method'], ...methods.map((each) => [each, each] as const)]}
      />
      <Select
        label="Duration"
        unlabelled
        value={filter.slow}
        onValue={(slow) => setQuery({ slow })}
        options={durations}
      />
      <Select
        label="Start"
        unlabelled
        value={filter.start}
        onValue={(start) => setQuery({ start })}
        options={starts}
      />
    </div>
  );
}

function Matching({ app, filter }: { app: string; filter: RequestFilter }) {
  const { list, isSample } = useModel(() => requestsModel(app, filter));
  const isFiltered = Object.values(filter).some((value) => value !== '');
  return (
    <div class="stack">
      {isSample.value && (
        <Notice look="warn">
          <p>This is a sample: at most 100 requests of each second are listed.</p>
        </Notice>
      )}
      <div class="panel">
        <Listed
          of={list}
          label="Requests"
          columns={columns(app)}
          empty={
            isFiltered ? (
              <Empty title="No request of the last 24 hours matches">
                <Button
                  onClick={() =>
                    setQuery({ path: null, method: null, status: null, slow: null, start: null })
                  }
                >
                  Show all requests
                </Button>
              </Empty>
            ) : (
              <Empty title="No requests in the last 24 hours" icon={IconArrowLeftRight}>
                <p>A request appears here a moment after it was answered.</p>
              </Empty>
            )
          }
        />
      </div>
    </div>
  );
}
