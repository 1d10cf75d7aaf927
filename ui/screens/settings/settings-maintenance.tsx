// The maintenance page: whether visitors get it, and its HTML.
import { useState } from 'preact/hooks';
import { type Maintenance, maintenanceModel } from '../../models/settings.ts';
import { Button } from '../../parts/controls/button.tsx';
import { TextArea } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { useModel } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';
import { Badge } from '../../parts/status/status.tsx';
import { toast } from '../../parts/status/toast.tsx';

/** @param props.onSet called after maintenance is turned on or off */
export function MaintenancePanel({ app, onSet }: { app: string; onSet: () => void }) {
  const model = useModel(() => maintenanceModel(app));
  const isOn = model.maintenance.data.value?.enabled === true;
  return (
    <section class="panel" aria-labelledby="maintenance">
      <header>
        <h2 id="maintenance">Maintenance</h2>
        {isOn && <Badge look="warn">on</Badge>}
      </header>
      <Loaded of={model.maintenance}>
        {(maintenance) => (
          <Form
            key={JSON.stringify(maintenance)}
            maintenance={maintenance}
            save={async (change) => {
              await model.set(change);
              onSet();
            }}
          />
        )}
      </Loaded>
    </section>
  );
}

function Form({
  maintenance: { enabled: on, html },
  save,
}: {
  maintenance: Maintenance;
  save: (change: Partial<Maintenance>) => Promise<void>;
}) {
  const [typed, setTyped] = useState(html ?? '');
  const page = typed.trim() === '' ? null : typed;
  const isSame = page === html;
  const turn = useSubmit(async () => {
    await save({ enabled: !on, html: page });
    toast(on ? 'Requests reach the app again' : 'Visitors get the maintenance page');
  });
  const keep = useSubmit(async () => {
    await save({ html: page });
    toast('The maintenance page is saved');
  });
  return (
    <form class="body stack form" onSubmit={keep.onSubmit}>
      <p class={on ? undefined : 'muted'}>
        {on
          ? 'Maintenance is on: visitors get the page below with 503, and no request reaches the app.'
          : 'While maintenance is on, visitors get a page with 503, and no request reaches the app.'}{' '}
        Crons, queues and previews keep running.
      </p>
      <TextArea
        label="Page"
        name="html"
        value={typed}
        onValue={setTyped}
        spellcheck={false}
        rows={6}
        placeholder="Cellar’s own page"
        hint="HTML of up to 64 KiB. Empty: Cellar’s own page."
      />
      <div class="row">
        <Button needs="admin" look={on ? 'primary' : undefined} disabled={turn.busy} onClick={turn.onSubmit}>
          {on ? 'Turn maintenance off' : 'Turn maintenance on'}
        </Button>
        <Button needs="admin" type="submit" disabled={keep.busy || isSame}>
          Save the page
        </Button>
      </div>
    </form>
  );
}
