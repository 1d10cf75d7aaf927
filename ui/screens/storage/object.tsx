// Storage of one Durable Object: keys with their values, and tables.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { type KeptKey, objectModel, objectReader } from '../../models/storage/storage.ts';
import { written } from '../../models/storage/values.ts';
import { Copy } from '../../parts/code/code.tsx';
import { Button } from '../../parts/controls/button.tsx';
import { Tabs } from '../../parts/controls/tabs.tsx';
import { bytes } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { Empty, Loaded } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { List } from '../../parts/tables/pages.tsx';
import { Tables } from '../../parts/tables/tables.tsx';
import { queryOf } from '../../router.ts';

export default function ObjectScreen({
  app,
  class: of,
  object,
}: {
  app: string;
  class: string;
  object: string;
}) {
  const model = useModel(() => objectModel(app, of, object));
  const { keys, record } = model;
  const known = record.value;
  const to = { name: 'object', app, class: of, object } as const;
  const showsTables = queryOf('view') === 'tables';
  return (
    <div class="full">
      <Head
        title={known?.name ?? (object.length > 24 ? `${of} ${object.slice(0, 12)}…` : object)}
        {...(known && {
          about: (
            <>
              <code>{known.id}</code> <Copy text={known.id} label="Copy the id" short /> {bytes(known.bytes)}
              {known.next_alarm && (
                <>
                  , alarm <Time at={known.next_alarm} />
                </>
              )}
            </>
          ),
        })}
      />
      <Loaded of={keys.of}>
        {() => (
          <div class="stack">
            <Tabs
              label="Storage of the object"
              tabs={[
                { text: 'Keys', to, current: !showsTables },
                {
                  text: `Tables (${known?.tables.length ?? 0})`,
                  to,
                  query: { view: 'tables' },
                  current: showsTables,
                },
              ]}
            />
            {showsTables && known ? (
              <Tables
                place={`${app} ${of} ${known.id}`}
                tables={known.tables}
                read={objectReader(app, of, known.id)}
                write={null}
                refresh={keys.refresh}
              />
            ) : (
              <div class="panel">
                <List
                  of={keys}
                  empty={
                    <Empty title="No keys">
                      <p>What an object writes with storage.put is shown here; its tables are beside it.</p>
                    </Empty>
                  }
                >
                  {(items) => (
                    <ul class="kept">
                      {items.map((each) => (
                        <Kept key={each.key} {...{ each }} readKey={model.readKey} />
                      ))}
                    </ul>
                  )}
                </List>
              </div>
            )}
          </div>
        )}
      </Loaded>
    </div>
  );
}

function Kept({ each, readKey }: { each: KeptKey; readKey: (key: string) => Promise<unknown> }) {
  const [whole, setWhole] = useState<{ value: unknown } | null>(null);
  const value = whole ? whole.value : each.value;
  const isLarge = whole === null && typeof value === 'object' && value !== null && '$large' in value;
  return (
    <li>
      <p class="row apart">
        <code class="strong">{each.key}</code>
        <span class="muted small">{bytes(each.bytes)}</span>
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways, by keyboard too */}
      <pre tabIndex={0}>{written(value)}</pre>
      {isLarge && (
        <Button short onClick={async () => setWhole({ value: await readKey(each.key) })}>
          Read it
        </Button>
      )}
    </li>
  );
}
