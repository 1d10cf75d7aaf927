// All apps, and how they are.
import { Head } from '../layout/head.tsx';
import { type App, appsModel } from '../models/apps.ts';
import { Link, LinkButton } from '../parts/button.tsx';
import { Search } from '../parts/field.tsx';
import { plural } from '../parts/format.ts';
import { IconBox, IconPlus } from '../parts/icons.tsx';
import { useModel } from '../parts/model.ts';
import { Empty, Loaded } from '../parts/states.tsx';
import { Status } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { queryOf, setQuery } from '../router.ts';

const columns: readonly Column<App>[] = [
  {
    name: 'App',
    wide: true,
    cell: ({ slug, status }) => (
      <span class="row">
        <Status of={status} silent />
        <Link to={{ name: 'overview', app: slug }} class="main-cell">
          {slug}
        </Link>
      </span>
    ),
  },
  { name: 'Status', cell: ({ status }) => status },
  { name: 'Last deploy', cell: ({ deployed_at }) => <Time at={deployed_at} otherwise="Never" /> },
];

export default function Apps() {
  const { apps, shown } = useModel(appsModel);
  return (
    <>
      <Head title="Apps">
        <Search label="Filter apps" value={queryOf('q')} onValue={(q) => setQuery({ q })} />
        <LinkButton to={{ name: 'new' }} look="primary">
          <IconPlus /> New app
        </LinkButton>
      </Head>
      <div class="panel">
        <Loaded of={apps}>
          {(all) =>
            all.length === 0 ? (
              <Empty title="No apps yet" icon={IconBox}>
                <p>An app begins with a name. Then you push code to it, and it is live.</p>
                <LinkButton to={{ name: 'new' }} look="primary">
                  Make the first app
                </LinkButton>
              </Empty>
            ) : shown.value.length === 0 ? (
              <Empty title={`None of ${plural(all.length, 'app')} has “${queryOf('q')}” in its name`} />
            ) : (
              <Table label="Apps" columns={columns} rows={shown.value} keyOf={({ id }) => id} />
            )
          }
        </Loaded>
      </div>
    </>
  );
}
