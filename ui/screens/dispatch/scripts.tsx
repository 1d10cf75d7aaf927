// The scripts of a dispatch namespace.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { type Script, scriptsModel } from '../../models/dispatch.ts';
import { Code } from '../../parts/code/code.tsx';
import { Link, RemoveButton } from '../../parts/controls/button.tsx';
import { IconLayers } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { AppStatus } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { queryOf } from '../../router.ts';
import { session } from '../../session.ts';
import { DeleteApp } from '../settings/delete-app.tsx';

export default function Scripts({ dispatch: name }: { dispatch: string }) {
  const owner = queryOf('owner', session.value!.account.id);
  const model = useModel(() => scriptsModel(owner, name));
  const [chosen, setChosen] = useState<Script | null>(null);
  return (
    <>
      <Head title={name} about="The scripts of this dispatch namespace, the newest first." />
      <div class="panel">
        <Listed
          of={model.scripts}
          label={`Scripts of ${name}`}
          columns={columnsOf(setChosen)}
          empty={
            <Empty title="No scripts here" icon={IconLayers}>
              <p>Upload one with Wrangler, in the folder of its Worker:</p>
              <Code
                text={`wrangler deploy --dispatch-namespace ${name} --name alice`}
                label="Copy the command"
              />
            </Empty>
          }
        />
      </div>
      {chosen && (
        <DeleteApp
          name={chosen.dispatch.script}
          about="Calls of the script fail with “Worker not found.” Its data is moved to the trash. For 7 days, you can undelete the script below the list of apps."
          onDelete={async () => {
            await model.delete(chosen);
            toast(`${chosen.dispatch.script} is deleted`);
            setChosen(null);
          }}
          onClose={() => setChosen(null)}
        />
      )}
    </>
  );
}

function columnsOf(choose: (script: Script) => void): readonly Column<Script>[] {
  return [
    {
      name: 'Script',
      wide: true,
      cell: ({ slug, dispatch }) => (
        <Link to={{ name: 'overview', app: slug }} class="main-cell">
          {dispatch.script}
        </Link>
      ),
    },
    {
      name: 'Status',
      cell: ({ status, asleep_since }) => <AppStatus of={status} isIdle={false} since={asleep_since} />,
    },
    {
      name: 'Deployed',
      label: 'deployed',
      cell: ({ deployed_at }) => <Time at={deployed_at} otherwise="not yet" />,
    },
    {
      name: 'What to look at',
      silent: true,
      cell: ({ slug, dispatch }) => (
        <span class="nowrap">
          <Link to={{ name: 'logs', app: slug }}>
            Logs<span class="unseen"> of {dispatch.script}</span>
          </Link>{' '}
          <Link to={{ name: 'requests', app: slug }}>
            Requests<span class="unseen"> of {dispatch.script}</span>
          </Link>
        </span>
      ),
    },
    {
      name: 'What to do',
      silent: true,
      cell: (script) => (
        <RemoveButton label={`Delete ${script.dispatch.script}`} onClick={() => choose(script)} />
      ),
    },
  ];
}
