// The audit log of all accounts, for admins of the machine; or that of the signed-in account.
import { Head } from '../../layout/head.tsx';
import {
  type AuditEntry,
  type AuditFilter,
  auditModel,
  detailsOf,
  exportUrl,
  filterOf,
  interfaceNames,
  whoOf,
} from '../../models/account/audit.ts';
import { Link } from '../../parts/controls/button.tsx';
import { Select, TextField } from '../../parts/controls/field.tsx';
import { IconDownload, IconHistory } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Badge } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { queryOf, route, setQuery } from '../../router.ts';
import { session } from '../../session.ts';

const columns: readonly Column<AuditEntry>[] = [
  {
    name: 'What',
    wide: true,
    cell: (entry) => (
      <span class="cut" title={detailsOf(entry)}>
        <span class="mono">{entry.operation}</span> <span class="muted">{detailsOf(entry)}</span>
      </span>
    ),
  },
  {
    name: 'App',
    cell: ({ app }) =>
      app === null ? (
        <span class="muted">none</span>
      ) : (
        <Link to={{ name: 'overview', app: app.slug }} class="cut">
          {app.slug}
        </Link>
      ),
  },
  { name: 'Who', cell: (entry) => <span class="cut">{whoOf(entry)}</span> },
  {
    name: 'From',
    skipSmall: true,
    cell: ({ via, address }) => (
      <span class="cut">
        {interfaceNames[via]} <span class="muted">{address}</span>
      </span>
    ),
  },
  {
    name: 'Outcome',
    cell: ({ outcome }) => (outcome === 'ok' ? 'done' : <Badge look="danger">{outcome}</Badge>),
  },
  { name: 'When', number: true, cell: ({ at }) => <Time at={at} /> },
];

export default function Audit() {
  const isOwn = route.value?.name === 'ownAudit';
  const filter = {
    ...filterOf(queryOf),
    ...(isOwn && session.value && { account: session.value.account.id }),
  };
  return (
    <>
      <Head
        title={isOwn ? 'What you changed' : 'Audit log'}
        about={
          isOwn
            ? 'Your changes of the last 90 days, in the browser and with your API keys.'
            : 'Who changed what, and from where, in the last 90 days.'
        }
      >
        <a class="button" href={exportUrl(filter)} download="audit.ndjson">
          <IconDownload /> Export
        </a>
      </Head>
      <Filters />
      <Shown key={JSON.stringify(filter)} filter={filter} />
    </>
  );
}

function Filters() {
  return (
    <search class="filters">
      <TextField
        label="Only on the app"
        unlabelled
        placeholder="App"
        value={queryOf('app')}
        onValue={(app) => setQuery({ app })}
        spellcheck={false}
      />
      <TextField
        label="Only of the operation"
        unlabelled
        placeholder="Operation: apps.delete"
        value={queryOf('operation')}
        onValue={(operation) => setQuery({ operation })}
        spellcheck={false}
      />
      <Select
        label="Interface"
        unlabelled
        value={queryOf('via')}
        onValue={(via) => setQuery({ via })}
        options={[['', 'All interfaces'], ...Object.entries(interfaceNames)]}
      />
      <Select
        label="Outcome"
        unlabelled
        value={queryOf('outcome')}
        onValue={(outcome) => setQuery({ outcome })}
        options={[
          ['', 'All outcomes'],
          ['ok', 'Done'],
          ['refused', 'Refused or failed'],
        ]}
      />
    </search>
  );
}

function Shown({ filter }: { filter: AuditFilter }) {
  const model = useModel(() => auditModel(filter));
  return (
    <div class="panel">
      <Listed
        of={model}
        label="Changes"
        columns={columns}
        empty={
          <Empty title="No such change" icon={IconHistory}>
            <p>
              No change of the last 90 days matches the filters. Operations that only read are not listed.
            </p>
          </Empty>
        }
      />
    </div>
  );
}
