// Snapshots of the whole Cellar, and restoring an app from one.
import { useEffect, useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { changesOf, type Snapshot, snapshotsModel } from '../../models/machine.ts';
import { Button } from '../../parts/controls/button.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { Select } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { bytes, exactTime, plural } from '../../parts/format.ts';
import { IconHistory, IconTriangleAlert } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Notice } from '../../parts/status/states.tsx';
import { Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { failed, toast } from '../../parts/status/toast.tsx';
import { Listed } from '../../parts/tables/pages.tsx';

export default function Snapshots() {
  const model = useModel(snapshotsModel);
  const { snapshots } = model;
  const [restoring, setRestoring] = useState<Snapshot | null>(null);
  const state = model.stats.data.value?.host?.snapshots;
  const damagedParts = (key: string) => {
    const found = state?.verified.damaged.find((each) => each.key === key);
    return found === undefined ? null : found.parts.map(({ name }) => name).join(', ');
  };
  return (
    <>
      <Head
        title="Snapshots"
        about="Each contains all data of this Cellar at one moment. Cellar takes them automatically, by default every hour, and before changes that cannot be undone. The data of an app can be restored from each snapshot."
      >
        <Button
          disabled={model.verifying.value}
          onClick={async () => {
            const { snapshots, damaged } = await model.verify();
            if (damaged.length === 0) toast(`${plural(snapshots, 'snapshot')} verified: all are intact`);
            else
              failed(
                new Error(`${plural(damaged.length, 'snapshot')} of ${snapshots} cannot restore everything`),
              );
          }}
        >
          Verify
        </Button>
        <Button
          look="primary"
          disabled={model.taking.value}
          onClick={async () => toast(`The snapshot is taken: ${bytes(await model.take())} written`)}
        >
          Take a snapshot
        </Button>
      </Head>
      <div class="stack">
        {state?.problem && (
          <Notice look="warn" icon={IconTriangleAlert}>
            Snapshots have a problem: {state.problem}
          </Notice>
        )}
        {state && state.verified.damaged.length > 0 && (
          <Notice look="warn" icon={IconTriangleAlert}>
            {plural(state.verified.damaged.length, 'snapshot')} cannot restore everything.{' '}
            {state.newest_damaged
              ? 'The newest snapshot is one of them. Take a new snapshot: it does not reuse damaged files, and stores their data again.'
              : 'The newest snapshot is intact.'}
          </Notice>
        )}
        {state?.under_way && (
          <Notice>
            <Status
              of="building"
              word={
                {
                  take: 'A snapshot is being taken',
                  restore: 'Storage of an app is being restored from a snapshot',
                  copy: 'Storage is copied for a preview',
                  compare: 'Storage is compared with a snapshot',
                  verify: 'All snapshots are verified',
                }[state.under_way.what]
              }
            />
            , since <Time at={state.under_way.since} />
          </Notice>
        )}
        <div class="panel">
          <Listed
            of={snapshots}
            label="Snapshots"
            columns={[
              {
                name: 'Taken',
                cell: ({ created_at, key }: Snapshot) => (
                  <span title={key}>
                    <Time at={created_at} />
                  </span>
                ),
              },
              {
                name: 'What for',
                wide: true,
                cell: ({ key, why, failures }) => (
                  <span class="cut">
                    {why}
                    {failures.length > 0 && (
                      <span
                        class="danger"
                        title={failures.map(({ slug, error }) => `${slug}: ${error}`).join('\n')}
                      >
                        , {plural(failures.length, 'app')} as of before
                      </span>
                    )}
                    {damagedParts(key) !== null && (
                      <span class="danger">, cannot restore {damagedParts(key)}</span>
                    )}
                  </span>
                ),
              },
              { name: 'Apps', number: true, label: 'apps', cell: ({ apps }) => apps },
              {
                name: 'Written',
                number: true,
                label: 'written',
                cell: ({ written_bytes }) => bytes(written_bytes),
              },
              { name: 'Holds', number: true, label: 'holds', cell: (each) => bytes(each.bytes) },
              {
                name: 'What to do',
                silent: true,
                cell: (each) => (
                  <Button short onClick={() => setRestoring(each)}>
                    Restore
                  </Button>
                ),
              },
            ]}
            empty={
              <Empty title="No snapshots yet" icon={IconHistory}>
                <p>
                  Cellar takes the first snapshot ten minutes after its first start. You can also take one
                  now.
                </p>
              </Empty>
            }
          />
        </div>
      </div>
      {restoring && <Restore {...{ model }} snapshot={restoring} onClose={() => setRestoring(null)} />}
    </>
  );
}

function Restore({
  model,
  snapshot,
  onClose,
}: {
  model: ReturnType<typeof snapshotsModel>;
  snapshot: Snapshot;
  onClose: () => void;
}) {
  const [app, setApp] = useState('');
  const [database, setDatabase] = useState('');
  const [databases, setDatabases] = useState<string[]>([]);
  const [changes, setChanges] = useState<{ of: string; said: string[] } | null>(null);
  const [comparing, setComparing] = useState(false);
  const apps = model.apps.data.value?.items ?? [];
  useEffect(() => {
    setDatabase('');
    setDatabases([]);
    if (app !== '') model.databasesOf(app).then(setDatabases).catch(failed);
  }, [app]);
  // Identifies what is compared, because the person may choose another app or database meanwhile.
  const chosen = `${app} ${database}`;
  const compare = async () => {
    setComparing(true);
    try {
      setChanges({ of: chosen, said: changesOf(await model.compare(snapshot.key, app, database)) });
    } finally {
      setComparing(false);
    }
  };
  const { busy, onSubmit } = useSubmit(async () => {
    const before = await model.restore(snapshot.key, app, database);
    const aside =
      before === null
        ? 'The previous data could not be read, and stays in the trash for a week'
        : `The previous data is in the snapshot ${before}`;
    toast(`${database || app} is restored. ${aside}`);
    onClose();
  });
  return (
    <Dialog title="Restore from this snapshot" onClose={onClose}>
      <form class="stack" onSubmit={onSubmit}>
        <p>
          The data of the app becomes as it was at {exactTime(snapshot.created_at)}. The code stays as it is.
          A snapshot of the current data is taken first, so that you can go back.
        </p>
        <Select
          label="App"
          value={app}
          onValue={setApp}
          options={[['', 'Choose an app'], ...apps.map(({ slug }) => [slug, slug] as const)]}
        />
        {databases.length > 0 && (
          <Select
            label="Storage to restore"
            value={database}
            onValue={setDatabase}
            options={[
              ['', 'All its storage'],
              ...databases.map((name) => [name, `The database ${name} alone`] as const),
            ]}
          />
        )}
        {changes?.of === chosen && (
          <ul aria-label="What would change">
            {changes.said.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        )}
        {busy && (
          <p role="status">
            <Status of="building" word="The snapshot is read. This may take a while." />
          </p>
        )}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button onClick={compare} disabled={comparing || busy || app === ''}>
            Show changes
          </Button>
          <Button look="primary" type="submit" disabled={busy || app === ''}>
            {app === '' ? 'Restore' : `Restore ${database || app}`}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
