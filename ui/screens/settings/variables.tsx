// The variables, secrets and bindings of the app's Worker, and the variables of its builds.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import type { Pages } from '../../models/pages.ts';
import { type Secret, type Variable, variablesModel, variablesOf } from '../../models/settings.ts';
import { Copy } from '../../parts/code/code.tsx';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { FormDialog } from '../../parts/controls/dialog.tsx';
import { TextArea, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { plural } from '../../parts/format.ts';
import { IconKeyRound, IconLock, IconPencil, IconPlus, IconVariable } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';
import { Bindings } from './bindings.tsx';
import { WorkerVars } from './worker-vars.tsx';

type Editing = { kind: 'variable' | 'secret'; name: string; value: string; isNew: boolean };

export default function Variables({ app }: { app: string }) {
  const model = useModel(() => variablesModel(app));
  const { variables, secrets } = model;
  const [editing, setEditing] = useState<Editing | null>(null);
  const add = (kind: Editing['kind']) => setEditing({ kind, name: '', value: '', isNew: true });
  return (
    <>
      <Head
        title="Variables and secrets"
        about="The Worker has its variables and secrets in env; a change is in effect at once. Build variables are for install and build, from the next deploy on."
      />
      <div class="stack loose">
        <WorkerVars model={model} />
        <section class="panel" aria-labelledby="secrets">
          <header>
            <h2 id="secrets">Secrets of the Worker</h2>
            <Button needs="push" short onClick={() => add('secret')}>
              <IconPlus /> Add a secret
            </Button>
          </header>
          <Listed
            of={secrets}
            label="Secrets"
            columns={[
              {
                name: 'Name',
                wide: true,
                cell: ({ name }: Secret) => (
                  <span class="row">
                    <IconKeyRound /> <code class="cut">{name}</code>
                  </span>
                ),
              },
              {
                name: 'Changed',
                label: 'changed',
                cell: ({ updated_at }) => <Time at={updated_at} />,
              },
              {
                name: 'What to do',
                silent: true,
                cell: (secret) => (
                  <span class="row-actions">
                    <ChangeOrDelete
                      of={secrets}
                      item={secret}
                      needs="push"
                      change={() =>
                        setEditing({ kind: 'secret', name: secret.name, value: '', isNew: false })
                      }
                      commit={() => model.deleteSecret(secret.name)}
                    />
                  </span>
                ),
              },
            ]}
            empty={
              <Empty title="No secrets" icon={IconLock}>
                <p>Such as the key of a payment service. The Worker finds a secret in env.</p>
              </Empty>
            }
          />
        </section>
        <Bindings of={model.bindings} />
        <section class="panel" aria-labelledby="variables">
          <header>
            <h2 id="variables">Build variables</h2>
            <Button needs="admin" short onClick={() => add('variable')}>
              <IconPlus /> Add build variables
            </Button>
          </header>
          <Listed
            of={variables}
            label="Build variables"
            columns={[
              { name: 'Name', cell: ({ name }: Variable) => <code>{name}</code> },
              {
                name: 'Value',
                wide: true,
                cell: ({ value }) => <code class="cut">{value === '' ? 'empty' : value}</code>,
              },
              {
                name: 'Changed',
                label: 'changed',
                cell: ({ updated_at }) => <Time at={updated_at} />,
              },
              {
                name: 'What to do',
                silent: true,
                cell: (variable) => (
                  <span class="row-actions">
                    <Copy text={variable.value} label={`Copy the value of ${variable.name}`} short />
                    <ChangeOrDelete
                      of={variables}
                      item={variable}
                      needs="admin"
                      change={() => setEditing({ kind: 'variable', isNew: false, ...variable })}
                      commit={() => model.deleteVariable(variable.name)}
                    />
                  </span>
                ),
              },
            ]}
            empty={
              <Empty title="No build variables" icon={IconVariable}>
                <p>Such as NODE_ENV, or the address of an API that the build asks.</p>
              </Empty>
            }
          />
        </section>
      </div>
      {editing && <Editor {...{ model, editing }} onClose={() => setEditing(null)} />}
    </>
  );
}

function Editor({
  model,
  editing,
  onClose,
}: {
  model: ReturnType<typeof variablesModel>;
  editing: Editing;
  onClose: () => void;
}) {
  const { kind, isNew } = editing;
  const [name, setName] = useState(editing.name);
  const [value, setValue] = useState(editing.value);
  const [many, setMany] = useState<{ name: string; value: string }[]>([]);
  const { busy, onSubmit } = useSubmit(async () => {
    if (kind === 'secret') {
      const { in_effect, problem } = await model.setSecret(name, value);
      if (problem !== null)
        throw new Error(`${name} is stored, but the app did not start with it: ${problem}`);
      toast(in_effect ? `The app runs with ${name}` : `${name} is set when the app runs next`);
    } else {
      for (const each of many.length > 0 ? many : [{ name, value }])
        await model.setVariable(each.name, each.value);
      toast('The change is in effect with the next deploy');
    }
    onClose();
  });
  const title = isNew
    ? kind === 'secret'
      ? 'Add a secret'
      : 'Add build variables'
    : kind === 'secret'
      ? `Set ${name} again`
      : `Change ${name}`;
  /** Imports the variables of a `.env` file that is pasted into the field for the name. */
  const onPaste = (event: ClipboardEvent) => {
    const text = event.clipboardData?.getData('text') ?? '';
    const found = kind === 'variable' && isNew && text.includes('=') ? variablesOf(text) : [];
    if (found.length === 0) return;
    event.preventDefault();
    if (found.length === 1) {
      setName(found[0]!.name);
      setValue(found[0]!.value);
    } else setMany(found);
  };
  return (
    <FormDialog
      title={title}
      action={many.length > 0 ? `Add ${plural(many.length, 'build variable')}` : isNew ? 'Add' : 'Change'}
      disabled={busy}
      {...{ onSubmit, onClose }}
    >
      {many.length > 0 ? (
        <p>
          {plural(many.length, 'build variable')} of what you pasted:{' '}
          {many.map(({ name }) => name).join(', ')}
        </p>
      ) : (
        <>
          <TextField
            label="Name"
            value={name}
            onValue={setName}
            onPaste={onPaste}
            disabled={!isNew}
            required
            pattern="[A-Za-z_$][A-Za-z0-9_$]*"
            title="Letters, digits, _ and $, not beginning with a digit."
            spellcheck={false}
            autocomplete="off"
            hint={isNew && kind === 'variable' ? 'Paste lines of a .env file here to add all of them.' : null}
          />
          <TextArea
            label="Value"
            value={value}
            onValue={setValue}
            spellcheck={false}
            rows={3}
            required={kind === 'secret'}
            hint={
              kind === 'secret'
                ? 'The secret is encrypted, and never shown again. A running app is restarted with the secret.'
                : null
            }
          />
        </>
      )}
    </FormDialog>
  );
}

function ChangeOrDelete<Item extends { name: string }>({
  of,
  item,
  needs,
  change,
  commit,
}: {
  of: Pages<Item>;
  item: Item;
  needs: 'push' | 'admin';
  change: () => void;
  commit: () => Promise<unknown>;
}) {
  const { name } = item;
  return (
    <>
      <Button needs={needs} look="quiet" short label={`Change ${name}`} onClick={change}>
        <IconPencil />
      </Button>
      <RemoveButton
        needs={needs}
        label={`Delete ${name}`}
        onClick={() => remove(of, item, `${name} is deleted`, commit)}
      />
    </>
  );
}
