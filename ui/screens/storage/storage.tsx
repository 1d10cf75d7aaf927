// All storage of the app.
import { Head } from '../../layout/head.tsx';
import { overviewModel } from '../../models/storage/storage.ts';
import { titleOf } from '../../models/title.ts';
import { Link } from '../../parts/controls/button.tsx';
import { bytes, plural } from '../../parts/format.ts';
import {
  type Icon,
  IconArchive,
  IconBox,
  IconChevronRight,
  IconDatabase,
  IconKey,
  IconLayers,
  IconWaypoints,
} from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Loaded } from '../../parts/status/states.tsx';
import type { Route } from '../../router.ts';

interface Entry {
  /** Identifies the item in its list: its id or its name. */
  key: string;
  name: string;
  binding: string | null;
  size: string;
  to: Route | null;
}

export default function Storage({ app }: { app: string }) {
  const { overview } = useModel(() => overviewModel(app));
  return (
    <>
      <Head title="Storage" about="The stored data of the app. Reading it does not start a sleeping app." />
      <Loaded of={overview}>
        {({ databases, classes, namespaces, queues, buckets, vector_indexes, workflows }) => {
          const groups = [
            group('Databases', IconDatabase, databases, (each) => ({
              key: each.id,
              name: titleOf(each),
              binding: each.binding,
              size: bytes(each.bytes),
              to: { name: 'database', app, database: each.id },
            })),
            group('Durable Objects', IconBox, classes, (each) => ({
              key: each.class_name,
              name: each.class_name,
              binding: null,
              size: `${plural(each.objects, 'object')}, ${bytes(each.bytes)}`,
              to: { name: 'objects', app, class: each.class_name },
            })),
            group('KV namespaces', IconKey, namespaces, (each) => ({
              key: each.id,
              name: titleOf(each),
              binding: each.binding,
              size: `${plural(each.keys, 'key')}, ${bytes(each.bytes)}`,
              to: { name: 'namespace', app, namespace: each.id },
            })),
            group('Buckets', IconArchive, buckets, (each) => ({
              key: each.bucket,
              name: each.bucket,
              binding: each.binding,
              size: `${plural(each.objects, 'object')}, ${bytes(each.bytes)}`,
              to: { name: 'bucket', app, bucket: each.bucket, prefix: '' },
            })),
            group('Vector indexes', IconWaypoints, vector_indexes, (each) => ({
              key: each.index,
              name: each.index,
              binding: each.binding,
              size: `${plural(each.vectors, 'vector')}, ${bytes(each.bytes)}`,
              to: null,
            })),
            group('Workflows', IconWaypoints, workflows, (each) => ({
              key: each.name,
              name: each.name,
              binding: each.binding,
              size: `${plural(each.instances, 'instance')}, ${bytes(each.bytes)}`,
              to: { name: 'workflow', app, workflow: each.name },
            })),
            group('Queues', IconLayers, queues, (each) => ({
              key: each.queue,
              name: each.queue,
              binding: null,
              size: `${plural(each.messages, 'message')}, ${bytes(each.bytes)}`,
              to: null,
            })),
          ].filter(({ entries }) => entries.length > 0);
          if (groups.length === 0)
            return (
              <div class="panel">
                <Empty title="The app has no storage" icon={IconDatabase}>
                  <p>
                    Bind a D1 database, a KV namespace, an R2 bucket, a Durable Object or a Workflow in the
                    Wrangler configuration; it is there with the next deploy.
                  </p>
                </Empty>
              </div>
            );
          return (
            <div class="stack">
              {groups.map(({ title, icon: Sign, entries }) => (
                <section key={title} class="panel" aria-label={title}>
                  <header>
                    <h2>{title}</h2>
                  </header>
                  <ul class="places">
                    {entries.map(({ key, name, binding, size, to }) => (
                      <li key={key}>
                        <Sign />
                        <span class="row grow">
                          {to ? (
                            <Link to={to} class="strong cut">
                              {name}
                            </Link>
                          ) : (
                            <span class="strong cut">{name}</span>
                          )}
                          {binding !== null && binding !== name && (
                            <span class="muted cut">
                              <code>env.{binding}</code>
                            </span>
                          )}
                          {key !== binding && key !== name && (
                            <span class="muted cut">
                              <code>{key}</code>
                            </span>
                          )}
                        </span>
                        <span class="muted nowrap">{size}</span>
                        {to && <IconChevronRight />}
                      </li>
                    ))}
                  </ul>
                </section>
              ))}
            </div>
          );
        }}
      </Loaded>
    </>
  );
}

function group<Of>(title: string, icon: Icon, of: readonly Of[], entry: (each: Of) => Entry) {
  return { title, icon, entries: of.map(entry) };
}
