// A Workflow: its instances, newest first, and a form to create one.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { type Instance, type InstanceStatus, instancesModel } from '../../models/storage/workflows.ts';
import { Button, Link } from '../../parts/controls/button.tsx';
import { Select } from '../../parts/controls/field.tsx';
import { JsonDialog } from '../../parts/controls/json-dialog.tsx';
import { IconPlay, IconWaypoints } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { InstanceBadge, instanceStatuses, wordOf } from '../../parts/status/instance-status.tsx';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import { open, queryOf, setQuery } from '../../router.ts';

interface Props {
  app: string;
  workflow: string;
}

export default function Workflow(props: Props) {
  const status = instanceStatuses.find((each) => each === queryOf('status')) ?? '';
  const [adding, setAdding] = useState(false);
  return (
    <>
      <Head
        title={props.workflow}
        about="Its instances, newest first. You can read them while the app sleeps."
      >
        <Select
          label="Status"
          unlabelled
          value={status}
          onValue={(value) => setQuery({ status: value })}
          options={[
            ['', 'Every status'] as const,
            ...instanceStatuses.map((each) => [each, wordOf(each)] as const),
          ]}
        />
        <Button look="primary" needs="push" onClick={() => setAdding(true)}>
          <IconPlay /> Run it
        </Button>
      </Head>
      <Instances key={status} {...{ ...props, status, adding }} close={() => setAdding(false)} />
    </>
  );
}

function Instances({
  app,
  workflow,
  status,
  adding,
  close,
}: Props & { status: InstanceStatus | ''; adding: boolean; close: () => void }) {
  const model = useModel(() => instancesModel(app, workflow, status));
  const { list } = model;
  return (
    <div class="panel">
      <Listed
        of={list}
        label="Instances"
        empty={
          <Empty
            title={status === '' ? 'No instances yet' : 'No instance in this status'}
            icon={IconWaypoints}
          >
            {status === '' && <p>The app makes them with create(), or you run it here.</p>}
          </Empty>
        }
        columns={[
          {
            name: 'Instance',
            wide: true,
            cell: ({ id }: Instance) => (
              <Link to={{ name: 'instance', app, workflow, instance: id }} class="main-cell mono cut">
                {id}
              </Link>
            ),
          },
          { name: 'Status', cell: (instance) => <InstanceBadge of={instance.status} /> },
          { name: 'Created', label: 'created', cell: ({ created_at }) => <Time at={created_at} /> },
          {
            name: 'Last event',
            label: 'last event',
            cell: ({ changed_at }) => <Time at={changed_at} />,
          },
        ]}
      />
      {adding && (
        <JsonDialog
          title="Run the Workflow"
          name={{
            label: 'Id',
            pattern: '[a-zA-Z0-9_][a-zA-Z0-9_\\-]*',
            hint: 'Letters, digits, - and _. Empty: a new one.',
          }}
          value={{ label: 'Parameters, as JSON', first: '{}' }}
          verb="Run it"
          submit={async (id, params) =>
            open({ name: 'instance', app, workflow, instance: await model.create(id, params) })
          }
          onClose={close}
        />
      )}
    </div>
  );
}
