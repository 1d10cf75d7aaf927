// A Workflow: its instances, newest first, and making one.
import { useState } from 'preact/hooks';
import { Head } from '../layout/head.tsx';
import { whyNoJson } from '../models/values.ts';
import { type Instance, type InstanceStatus, instancesModel } from '../models/workflows.ts';
import { Button, Link } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Select, TextArea, TextField } from '../parts/field.tsx';
import { IconPlay, IconWaypoints } from '../parts/icons.tsx';
import { InstanceBadge, instanceStatuses, wordOf } from '../parts/instance-status.tsx';
import { useModel } from '../parts/model.ts';
import { More } from '../parts/pages.tsx';
import { Empty, Loaded } from '../parts/states.tsx';
import { useSubmit } from '../parts/submit.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { open, queryOf, setQuery } from '../router.ts';

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
        about="Its instances, newest first. They can be looked at while the app sleeps."
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
      <Loaded of={list.of}>
        {() =>
          list.items.value.length === 0 && !list.hasMore.value ? (
            <Empty
              title={status === '' ? 'No instances yet' : 'No instance in this status'}
              icon={IconWaypoints}
            >
              {status === '' && <p>The app makes them with create(), or you run it here.</p>}
            </Empty>
          ) : (
            <>
              <Table
                label="Instances"
                rows={list.items.value}
                keyOf={({ id }) => id}
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
              <More of={list} />
            </>
          )
        }
      </Loaded>
      {adding && (
        <Run
          onClose={close}
          create={model.create}
          made={(instance) => open({ name: 'instance', app, workflow, instance })}
        />
      )}
    </div>
  );
}

function Run({
  create,
  made,
  onClose,
}: {
  create: (id: string, params: unknown) => Promise<string>;
  made: (id: string) => void;
  onClose: () => void;
}) {
  const [id, setId] = useState('');
  const [params, setParams] = useState('{}');
  const wrong = whyNoJson(params);
  const { busy, onSubmit } = useSubmit(async () => made(await create(id, JSON.parse(params))));
  return (
    <Dialog title="Run the Workflow" onClose={onClose}>
      <form class="stack" onSubmit={onSubmit}>
        <TextField
          label="Id"
          value={id}
          onValue={setId}
          maxLength={100}
          pattern="[a-zA-Z0-9_][a-zA-Z0-9_\-]*"
          hint="Letters, digits, - and _. Empty: a new one."
          spellcheck={false}
          autocomplete="off"
        />
        <TextArea
          label="Parameters, as JSON"
          value={params}
          onValue={setParams}
          wrong={wrong}
          rows={6}
          spellcheck={false}
        />
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" disabled={busy || wrong !== null}>
            Run it
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
