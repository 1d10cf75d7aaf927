// The API keys of the signed-in account.
import { useState } from 'preact/hooks';
import type { accountModel, Key, NewKey } from '../../models/account/account.ts';
import { Code } from '../../parts/code/code.tsx';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { Dialog, FormDialog } from '../../parts/controls/dialog.tsx';
import { Select, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconKeyRound, IconPlus } from '../../parts/icons.tsx';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';

type Model = ReturnType<typeof accountModel>;

const SCOPES = { read: 'Read', deploy: 'Deploy', admin: 'All' } as const;
const LIVES = [
  ['30', '30 days'],
  ['90', '90 days'],
  ['365', 'A year'],
  ['', 'Until it is revoked'],
] as const;
type Life = (typeof LIVES)[number][0];

export function Keys({ model }: { model: Model }) {
  const { keys } = model;
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<string | null>(null);
  return (
    <section class="panel" aria-labelledby="keys">
      <header>
        <h2 id="keys">API keys</h2>
        <Button short onClick={() => setMaking(true)}>
          <IconPlus /> Make a key
        </Button>
      </header>
      <Listed
        of={keys}
        label="API keys"
        columns={[
          { name: 'Name', wide: true, cell: ({ name }: Key) => <span class="cut">{name}</span> },
          {
            name: 'May',
            cell: ({ scope, app }) => (
              <span class="cut">
                {SCOPES[scope]}
                {app !== null && ` on ${app.slug}`}
              </span>
            ),
          },
          {
            name: 'Last used',
            label: 'used',
            cell: ({ last_used_at }) => <Time at={last_used_at} otherwise="never" />,
          },
          {
            name: 'Expires',
            label: 'expires',
            cell: ({ expires_at }) => <Time at={expires_at} otherwise="never" />,
          },
          {
            name: 'Made',
            label: 'made',
            skipSmall: true,
            cell: ({ created_at }) => <Time at={created_at} />,
          },
          {
            name: 'What to do',
            silent: true,
            cell: (key) => (
              <RemoveButton
                label={`Revoke ${key.name}`}
                onClick={() => remove(keys, key, `${key.name} is revoked`, () => model.revokeKey(key.id))}
              />
            ),
          },
        ]}
        empty={
          <Empty title="No keys" icon={IconKeyRound}>
            <p>
              A key is the password for git push, for Wrangler and for the command line. It may do what you
              may, or less.
            </p>
          </Empty>
        }
      />
      {making && (
        <NewKeyForm
          model={model}
          onMade={(key) => {
            setMade(key);
            setMaking(false);
          }}
          onClose={() => setMaking(false)}
        />
      )}
      {made !== null && (
        <Dialog title="Your key" onClose={() => setMade(null)}>
          <div class="stack">
            <p>The key is shown only now. For git, use the key as the password, with any user name.</p>
            <Code text={made} wrap label="Copy the key" />
            <footer>
              <Button look="primary" onClick={() => setMade(null)}>
                I have kept it
              </Button>
            </footer>
          </div>
        </Dialog>
      )}
    </section>
  );
}

function NewKeyForm({
  model,
  onMade,
  onClose,
}: {
  model: Model;
  onMade: (key: string) => void;
  onClose: () => void;
}) {
  const [name, setName] = useState('laptop');
  const [scope, setScope] = useState<NewKey['scope']>('admin');
  const [app, setApp] = useState('');
  const [days, setDays] = useState<Life>('');
  const { busy, onSubmit } = useSubmit(async () =>
    onMade(await model.makeKey({ name: name.trim(), scope, app, days: days === '' ? null : Number(days) })),
  );
  return (
    <FormDialog
      title="Make a key"
      action="Make the key"
      disabled={busy || name.trim() === ''}
      {...{ onSubmit, onClose }}
    >
      <TextField
        label="What it is for"
        value={name}
        onValue={setName}
        required
        maxLength={100}
        autocomplete="off"
      />
      <div class="two">
        <Select
          label="What it may do"
          value={scope}
          onValue={setScope}
          options={[
            ['admin', 'All that you may'],
            ['deploy', 'Read and deploy'],
            ['read', 'Only read'],
          ]}
        />
        <Select
          label="For which apps"
          value={app}
          onValue={setApp}
          options={[
            ['', 'All apps'],
            ...(model.apps.data.value?.items ?? []).map(({ id, slug }) => [id, slug] as const),
          ]}
        />
      </div>
      <Select label="How long it works" value={days} onValue={setDays} options={LIVES} />
    </FormDialog>
  );
}
