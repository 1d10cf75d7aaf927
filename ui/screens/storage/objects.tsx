// The Durable Objects of a class.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { type ListedObject, objectsModel } from '../../models/storage/storage.ts';
import { Button, Link } from '../../parts/controls/button.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { bytes } from '../../parts/format.ts';
import { IconBox } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import { open } from '../../router.ts';

export default function Objects({ app, class: of }: { app: string; class: string }) {
  const objects = useModel(() => objectsModel(app, of));
  const [name, setName] = useState('');
  return (
    <>
      <Head
        title={of}
        about="Objects that have stored data. The name of an object is known only if it has an alarm."
      >
        <search>
          <form
            class="row"
            onSubmit={(event) => {
              event.preventDefault();
              open({ name: 'object', app, class: of, object: name });
            }}
          >
            <TextField
              label="Name or id of an object"
              unlabelled
              placeholder="Name or id of an object"
              value={name}
              onValue={setName}
              spellcheck={false}
              autocomplete="off"
            />
            <Button type="submit" disabled={name === ''}>
              Open
            </Button>
          </form>
        </search>
      </Head>
      <div class="panel">
        <Listed
          of={objects}
          label="Objects"
          columns={[
            {
              name: 'Object',
              wide: true,
              cell: ({ id, name }: ListedObject) => (
                <Link to={{ name: 'object', app, class: of, object: id }} class="main-cell cut">
                  {name ?? <span class="mono">{id}</span>}
                </Link>
              ),
            },
            {
              name: 'Next alarm',
              label: 'alarm',
              cell: ({ next_alarm }) => <Time at={next_alarm} otherwise="None" />,
            },
            { name: 'Size', number: true, cell: (object) => bytes(object.bytes) },
          ]}
          empty={
            <Empty title="No objects yet" icon={IconBox}>
              <p>An object appears when it first writes to its storage.</p>
            </Empty>
          }
        />
      </div>
    </>
  );
}
