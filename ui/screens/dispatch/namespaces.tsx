// Dispatch namespaces: the Workers of a platform's customers.
import { Head } from '../../layout/head.tsx';
import { type DispatchNamespace, dispatchModel } from '../../models/dispatch.ts';
import { Code } from '../../parts/code/code.tsx';
import { Link, RemoveButton } from '../../parts/controls/button.tsx';
import { askFirst } from '../../parts/controls/confirm.tsx';
import { count } from '../../parts/format.ts';
import { IconLayers } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { session } from '../../session.ts';

export default function Namespaces() {
  const model = useModel(dispatchModel);
  return (
    <>
      <Head
        title="Dispatch namespaces"
        about="A dispatch namespace contains scripts: Workers of your customers, which an app calls by name."
      />
      <div class="panel">
        <Listed
          of={model.namespaces}
          label="Dispatch namespaces"
          columns={columnsOf(model)}
          empty={
            <Empty title="No dispatch namespaces yet" icon={IconLayers}>
              <p>Make one with Wrangler, and upload a script to it:</p>
              <Code
                text={
                  'wrangler dispatch-namespace create customers\nwrangler deploy --dispatch-namespace customers --name alice'
                }
                label="Copy the commands"
              />
            </Empty>
          }
        />
      </div>
    </>
  );
}

function columnsOf(model: ReturnType<typeof dispatchModel>): readonly Column<DispatchNamespace>[] {
  const own = session.value?.account.id;
  const isOnlyOwn = model.namespaces.items.value.every(({ owner }) => owner.id === own);
  return [
    {
      name: 'Namespace',
      wide: true,
      cell: ({ name, owner }) => (
        <Link to={{ name: 'scripts', dispatch: name }} query={{ owner: owner.id }} class="main-cell">
          {name}
        </Link>
      ),
    },
    ...(isOnlyOwn
      ? []
      : [{ name: 'Owner', cell: ({ owner }: DispatchNamespace) => <span class="cut">{owner.name}</span> }]),
    { name: 'Scripts', number: true, label: 'scripts', cell: ({ scripts }) => count(scripts) },
    { name: 'Made', label: 'made', cell: ({ created_at }) => <Time at={created_at} /> },
    {
      name: 'What to do',
      silent: true,
      cell: (namespace) =>
        namespace.scripts === 0 && (
          <RemoveButton
            label={`Delete ${namespace.name}`}
            onClick={() =>
              askFirst({
                title: `Delete the dispatch namespace ${namespace.name}?`,
                about:
                  'The namespace has no scripts. Apps with a binding to the namespace cannot be deployed until it is made again.',
                action: 'Delete the namespace',
                danger: true,
                run: async () => {
                  await model.delete(namespace);
                  toast(`${namespace.name} is deleted`);
                },
              })
            }
          />
        ),
    },
  ];
}
