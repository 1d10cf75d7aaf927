// The deleted apps that can be undeleted. Shows nothing when there are none.
import { useState } from 'preact/hooks';
import { SLUG_RULE } from '../../../handlers/contract/apps/slug.ts';
import type { Resource } from '../../live.ts';
import type { Overview } from '../../models/apps.ts';
import { type DeletedApp, deletedModel } from '../../models/deleted.ts';
import { Button } from '../../parts/controls/button.tsx';
import { FormDialog } from '../../parts/controls/dialog.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { useModel } from '../../parts/model.ts';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import type { Column } from '../../parts/tables/table.tsx';
import { open } from '../../router.ts';

type Model = ReturnType<typeof deletedModel>;

/** @param props.apps the apps that are not deleted */
export function Deleted({ apps }: { apps: Resource<Overview> }) {
  const model = useModel(() => deletedModel(apps));
  const [chosen, setChosen] = useState<DeletedApp | null>(null);
  const columns: readonly Column<DeletedApp>[] = [
    { name: 'App', wide: true, cell: ({ slug }) => <span class="main-cell">{slug}</span> },
    { name: 'Deleted', label: 'deleted', cell: (app) => <Time at={app.deleted_at} /> },
    { name: 'Gone for good', label: 'gone for good', cell: (app) => <Time at={app.removed_at} /> },
    {
      name: 'What to do',
      silent: true,
      cell: (app) => (
        <Button short onClick={() => setChosen(app)}>
          Undelete
        </Button>
      ),
    },
  ];
  if (model.deleted.items.value.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="deleted">
      <header>
        <h2 id="deleted">Deleted apps</h2>
      </header>
      <Listed of={model.deleted} label="Deleted apps" columns={columns} empty={null} />
      {chosen && <Undelete app={chosen} model={model} onClose={() => setChosen(null)} />}
    </section>
  );
}

function Undelete({ app, model, onClose }: { app: DeletedApp; model: Model; onClose: () => void }) {
  const [slug, setSlug] = useState(app.slug);
  const { busy, onSubmit } = useSubmit(async () => {
    const undeleted = await model.undelete(app, slug);
    toast(`${undeleted.slug} is back`);
    open({ name: 'overview', app: undeleted.slug });
  });
  return (
    <FormDialog
      title={`Undelete ${app.slug}`}
      action="Undelete the app"
      disabled={busy}
      {...{ onSubmit, onClose }}
    >
      <p>
        Its data, repository, deploys, variables and secrets come back, and also its domains that no other app
        has. Its previews and logs do not come back.
      </p>
      <TextField
        label="Name"
        value={slug}
        onValue={(value) => setSlug(value.toLowerCase())}
        pattern="[a-z0-9]([a-z0-9\-]*[a-z0-9])?"
        title={`It ${SLUG_RULE}.`}
        minLength={3}
        maxLength={40}
        required
        hint="Give another name if another app has this name meanwhile."
        spellcheck={false}
        autocomplete="off"
      />
    </FormDialog>
  );
}
