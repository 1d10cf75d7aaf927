// The variables of the app's Worker: those of its configuration, and their overrides.
import { useState } from 'preact/hooks';
import type { variablesModel, WorkerVar } from '../../models/settings.ts';
import { Copy } from '../../parts/code/code.tsx';
import { Button } from '../../parts/controls/button.tsx';
import { FormDialog } from '../../parts/controls/dialog.tsx';
import { Check, TextArea, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconPencil, IconPlus, IconUndo2, IconVariable } from '../../parts/icons.tsx';
import { Empty } from '../../parts/status/states.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed } from '../../parts/tables/pages.tsx';

type Model = ReturnType<typeof variablesModel>;
type Editing = { name: string; value: unknown; isNew: boolean };

export function WorkerVars({ model }: { model: Model }) {
  const [editing, setEditing] = useState<Editing | null>(null);
  return (
    <section class="panel" aria-labelledby="vars">
      <header>
        <h2 id="vars">Variables of the Worker</h2>
        <Button needs="push" short onClick={() => setEditing({ name: '', value: '', isNew: true })}>
          <IconPlus /> Add a variable
        </Button>
      </header>
      <Listed
        of={model.vars}
        label="Variables"
        columns={[
          { name: 'Name', cell: ({ name }: WorkerVar) => <code>{name}</code> },
          { name: 'Value', wide: true, cell: ({ value }) => <code class="cut">{shownText(value)}</code> },
          { name: 'From', label: 'from', cell: ({ override }) => originOf(override) },
          {
            name: 'What to do',
            silent: true,
            cell: ({ name, value, override }) => (
              <span class="row-actions">
                <Copy text={textOf(value)} label={`Copy the value of ${name}`} short />
                <Button
                  needs="push"
                  look="quiet"
                  short
                  label={`Override ${name}`}
                  onClick={() => setEditing({ name, value, isNew: false })}
                >
                  <IconPencil />
                </Button>
                {override && <Unset {...{ model, name }} />}
              </span>
            ),
          },
        ]}
        empty={
          <Empty title="No variables" icon={IconVariable}>
            <p>
              Variables in vars of the Wrangler configuration appear here with the next deploy. You can add
              others.
            </p>
          </Empty>
        }
      />
      {editing && <Editor {...{ model, editing }} onClose={() => setEditing(null)} />}
    </section>
  );
}

function Unset({ model, name }: { model: Model; name: string }) {
  const { busy, onSubmit } = useSubmit(async () => {
    const problem = await model.unsetVar(name);
    if (problem !== null) throw new Error(`The override of ${name} is removed, but: ${problem}`);
    toast(`${name} has the value of the configuration again`);
  });
  return (
    <form onSubmit={onSubmit}>
      <Button
        needs="push"
        look="quiet"
        short
        type="submit"
        disabled={busy}
        label={`Remove the override of ${name}`}
      >
        <IconUndo2 />
      </Button>
    </form>
  );
}

function Editor({ model, editing, onClose }: { model: Model; editing: Editing; onClose: () => void }) {
  const { isNew } = editing;
  const [name, setName] = useState(editing.name);
  const [text, setText] = useState(textOf(editing.value));
  const [isJson, setIsJson] = useState(typeof editing.value !== 'string');
  const { busy, onSubmit } = useSubmit(async () => {
    const { in_effect, problem } = await model.setVar(name, isJson ? jsonOf(text) : text);
    if (problem !== null) throw new Error(`${name} is stored, but the app did not start with it: ${problem}`);
    toast(in_effect ? `The app runs with ${name}` : `${name} is set when the app runs next`);
    onClose();
  });
  return (
    <FormDialog
      title={isNew ? 'Add a variable' : `Override ${name}`}
      action={isNew ? 'Add' : 'Override'}
      disabled={busy}
      {...{ onSubmit, onClose }}
    >
      <TextField
        label="Name"
        value={name}
        onValue={setName}
        disabled={!isNew}
        required
        pattern="[A-Za-z_$][A-Za-z0-9_$]*"
        title="Letters, digits, _ and $, not beginning with a digit."
        spellcheck={false}
        autocomplete="off"
      />
      <TextArea
        label="Value"
        value={text}
        onValue={setText}
        spellcheck={false}
        rows={3}
        hint="Deploys keep this value, whatever the configuration has. A running app is restarted with the value."
      />
      <Check label="The value is JSON, not a text" value={isJson} onValue={setIsJson} />
    </FormDialog>
  );
}

function originOf(override: WorkerVar['override']): string {
  if (override === null) return 'configuration';
  return override.replaces ? 'override of the configuration' : 'only set here';
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function shownText(value: unknown): string {
  return value === '' ? 'empty' : textOf(value);
}

/** Parses JSON. @throws {Error} for a text that is not JSON */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('The value is not JSON, such as true, 5 or ["a", "b"].');
  }
}
