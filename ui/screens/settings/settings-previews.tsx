// Whether pushes to other branches make previews, with which storage they start, and their variables.
import { useState } from 'preact/hooks';
import { type PreviewSettings, previewSettingsModel } from '../../models/deploys/previews.ts';
import { Button } from '../../parts/controls/button.tsx';
import { Check, Select, TextArea } from '../../parts/controls/field.tsx';
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
            key={JSON.stringify(settings)}
            settings={settings}
            save={async (change) => {
              await model.set(change);
              toast(
                change.branches === settings.branches
                  ? 'The settings of previews are saved'
                  : change.branches
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
  save: (change: Partial<PreviewSettings>) => Promise<void>;
}) {
  const [branches, setBranches] = useState(settings.branches);
  const [storage, setStorage] = useState(settings.storage);
  const before = JSON.stringify(settings.vars, null, 2);
  const [vars, setVars] = useState(before);
  const { busy, onSubmit } = useSubmit(() =>
    save({ branches, storage, ...(vars !== before && { vars: overridesOf(vars) }) }),
  );
  const isSame = branches === settings.branches && storage === settings.storage && vars === before;
  return (
    <form class="body stack form" onSubmit={onSubmit}>
      <p class="muted">
        A preview has its own address, its own storage and the secrets of this app. It is deleted 7 days after
        its last push. wrangler versions upload also makes a preview.
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
      <TextArea
        label="Overrides of variables"
        value={vars}
        onValue={setVars}
        spellcheck={false}
        rows={4}
        hint="A JSON object with values by name. Previews do not have the app's own overrides."
      />
      <div>
        <Button needs="admin" type="submit" disabled={busy || isSame}>
          Save
        </Button>
      </div>
    </form>
  );
}

/** Parses the overrides of variables. @throws {Error} for a text that is not a JSON object */
function overridesOf(text: string): PreviewSettings['vars'] {
  const typed = text.trim() || '{}';
  try {
    const found: unknown = JSON.parse(typed);
    if (typeof found === 'object' && found !== null && !Array.isArray(found))
      return found as PreviewSettings['vars'];
  } catch {
    // Text that is not JSON is refused below, like JSON that is not an object.
  }
  throw new Error('The overrides must be a JSON object, such as {"API_URL": "https://test.example.com"}.');
}
