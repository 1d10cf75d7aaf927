// A D1 database: its tables, their rows, and a console.
import { api } from '../../api.ts';
import { Head } from '../../layout/head.tsx';
import { databaseModel, databaseReader, databaseWriter, titleModel } from '../../models/storage/storage.ts';
import { Button } from '../../parts/controls/button.tsx';
import { plural } from '../../parts/format.ts';
import { IconDownload } from '../../parts/icons.tsx';
import { useMade, useModel } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';
import { Tables } from '../../parts/tables/tables.tsx';

export default function Database({ app, database }: { app: string; database: string }) {
  const { title } = useModel(() => titleModel(app, 'databases', database));
  const { tables } = useModel(() => databaseModel(app, database));
  const { read, write } = useMade(() => ({
    read: databaseReader(app, database),
    write: databaseWriter(app, database),
  }));
  const save = async () => {
    const { sql } = await api('storage.d1.export', { id: app, database_id: database });
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([sql], { type: 'application/sql' }));
    link.download = `${app}-${title.data.peek() ?? database}.sql`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return (
    <div class="full">
      <Head
        title={title.data.value ?? 'Database'}
        status={tables.data.value && <span class="muted">{plural(tables.data.value.length, 'table')}</span>}
      >
        <Button needs="push" onClick={save}>
          <IconDownload /> Export as SQL
        </Button>
      </Head>
      <Loaded of={tables}>
        {(all) => (
          <Tables place={`${app} ${database}`} tables={all} {...{ read, write }} refresh={tables.refresh} />
        )}
      </Loaded>
    </div>
  );
}
