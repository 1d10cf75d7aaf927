// The grouped errors of an app.
import { Head } from '../../layout/head.tsx';
import {
  type ErrorStatus,
  errorsModel,
  type GroupedError,
  statuses,
  statusOf,
} from '../../models/telemetry/errors.ts';
import { Sparkline } from '../../parts/charts/sparkline.tsx';
import { Link } from '../../parts/controls/button.tsx';
import { Tabs } from '../../parts/controls/tabs.tsx';
import { count, exactCount, firstLine, plural } from '../../parts/format.ts';
import { IconCircleCheck } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Badge } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { queryOf } from '../../router.ts';

const WORDS = { open: 'Open', resolved: 'Resolved', ignored: 'Ignored' } as const;

/** Returns the type and message: `TypeError: no user 7`. If the message begins with the type, does not repeat it. */
export function nameOf({ kind, message }: Pick<GroupedError, 'kind' | 'message'>): string {
  const first = firstLine(message);
  return first === '' ? kind : first.startsWith(kind) ? first : `${kind}: ${first}`;
}

const columns = (app: string): readonly Column<GroupedError>[] => [
  {
    name: 'Error',
    wide: true,
    cell: (group) => (
      <span class="stack lines">
        <span class="row one-line">
          <Link to={{ name: 'error', app, fingerprint: group.fingerprint }} class="main-cell cut">
            {nameOf(group)}
          </Link>
          {group.regressed_at !== null && <Badge look="danger">seen again</Badge>}
        </span>
        <span class="cut small muted">
          {group.place !== null && <span class="mono">{group.place} </span>}
          {group.method !== null ? `${group.method} ${group.path ?? ''}` : (group.handler ?? '')}
        </span>
      </span>
    ),
  },
  {
    name: 'Last 24 hours',
    skipSmall: true,
    cell: ({ sparkline }) => (
      <Sparkline
        values={sparkline}
        colour="danger"
        label={`${plural(
          sparkline.reduce((sum, n) => sum + n, 0),
          'time',
        )} in the last 24 hours`}
      />
    ),
  },
  {
    name: 'Times',
    number: true,
    cell: (group) => (
      <span title={exactCount(group.count)}>
        {count(group.count)}
        <span class="only-small"> {group.count === 1 ? 'time' : 'times'}</span>
      </span>
    ),
  },
  { name: 'Seen last', number: true, cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
];

export default function Errors({ app }: { app: string }) {
  const asked = statusOf(queryOf('status'));
  return (
    <>
      <Head title="Errors" />
      <div class="stack">
        <Tabs
          label="Status of the errors"
          tabs={statuses.map((each) => ({
            text: WORDS[each],
            to: { name: 'errors', app } as const,
            query: { status: each === 'open' ? null : each },
            current: each === asked,
          }))}
        />
        <Groups key={asked} {...{ app }} status={asked} />
      </div>
    </>
  );
}

function Groups({ app, status }: { app: string; status: ErrorStatus }) {
  const { list, isNew } = useModel(() => errorsModel(app, status));
  return (
    <div class="panel">
      <Listed
        of={list}
        label={`${WORDS[status]} errors`}
        columns={columns(app)}
        isNew={isNew}
        empty={<None {...{ status }} />}
      />
    </div>
  );
}

function None({ status }: { status: GroupedError['status'] }) {
  if (status === 'open')
    return (
      <Empty title="No open errors" icon={IconCircleCheck}>
        <p>What the app throws and does not catch is grouped here, with its place in the source.</p>
      </Empty>
    );
  const words = {
    resolved: 'An error that you resolve is here until a newer release has it again.',
    ignored: 'An ignored error is counted here, but nobody is notified.',
  };
  return (
    <Empty title={`No ${status} errors`}>
      <p>{words[status]}</p>
    </Empty>
  );
}
