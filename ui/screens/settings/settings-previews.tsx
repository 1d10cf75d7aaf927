// Whether pushes to other branches make previews, and with which storage previews start.
import { useState } from 'preact/hooks';
import { type PreviewSettings, previewSettingsModel } from '../../models/deploys/previews.ts';
import { Button } from '../../parts/controls/button.tsx';
import { Check, Select } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { useModel } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';
import { toast } from '../../parts/status/toast.tsx';

export function PreviewsPanel({ app }: { app: string }) {
  const model = useModel(() => previewSettingsModel(app));
  return (
    <section class="panel" aria-labelledby="previews">
      <header>
        <h2 id="previews">Previews</h2>
      </header>
      <Loaded of={model.settings}>
        {(settings) => (
          <Form
            key={`${settings.branches} ${settings.storage}`}
            settings={settings}
            save={async (change) => {
              await model.set(change);
              toast(
                change.branches
                  ? 'A push to another branch makes a preview from now on'
                  : 'Only main is deployed from now on',
              );
            }}
          />
        )}
      </Loaded>
    </section>
  );
}

function Form({
  settings,
  save,
}: {
  settings: PreviewSettings;
  save: (change: PreviewSettings) => Promise<void>;
}) {
  const [branches, setBranches] = useState(settings.branches);
  const [storage, setStorage] = useState(settings.storage);
  const { busy, onSubmit } = useSubmit(() => save({ branches, storage }));
  const isSame = branches === settings.branches && storage === settings.storage;
  return (
    <form class="body stack form" onSubmit={onSubmit}>
      <p class="muted">
        A preview is at an address of its own, with storage of its own and the variables and secrets of this
        app, and goes 7 days after its last push. wrangler versions upload makes one, too.
      </p>
      <Check
        label="A push to another branch than main makes a preview"
        value={branches}
        onValue={setBranches}
      />
      <Select
        label="Storage of a new preview"
        value={storage}
        onValue={setStorage}
        options={[
          ['empty', 'empty'],
          ['copy', "a copy of the app's storage"],
        ]}
      />
      <div>
        <Button needs="admin" type="submit" disabled={busy || isSame}>
          Save
        </Button>
      </div>
    </form>
  );
}
