// The signed-in account: its name, its keys for git and programs, and its sign-in methods.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { accountModel, type Key } from '../../models/account/account.ts';
import { hasPasskeys } from '../../models/account/sign-in.ts';
import { Code } from '../../parts/code/code.tsx';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconKeyRound, IconPlus } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';
import { session } from '../../session.ts';
import { Ask } from './account-ask.tsx';
import { Passkeys, Password, SecondFactor, Sessions } from './account-sign-in.tsx';

type Model = ReturnType<typeof accountModel>;

const WORDS = { admin: 'an administrator', member: 'a member', guest: 'a guest' };

export default function AccountScreen() {
  const account = session.value?.account;
  if (!account) return null;
  return <Shown key={account.id} id={account.id} />;
}

function Shown({ id }: { id: string }) {
  const model = useModel(() => accountModel(id));
  const account = session.value!.account;
  return (
    <>
      <Head title="Account" about={`${account.email}, ${WORDS[account.role]} of this machine.`} />
      <div class="stack loose">
        <section class="panel" aria-labelledby="name">
          <header>
            <h2 id="name">Name</h2>
          </header>
          <Name model={model} name={account.name} />
        </section>
        <Keys model={model} />
        <section class="panel" aria-labelledby="password">
          <header>
            <h2 id="password">Password</h2>
          </header>
          <Password model={model} />
        </section>
        <SecondFactor />
        {hasPasskeys() && <Passkeys model={model} />}
        <Sessions model={model} />
      </div>
    </>
  );
}

function Name({ model, name }: { model: Model; name: string }) {
  const [typed, setTyped] = useState(name);
  const { busy, onSubmit } = useSubmit(async () => {
    await model.rename(typed.trim());
    toast('Your name is changed');
  });
  return (
    <form class="body row bottoms" onSubmit={onSubmit}>
      <div class="domain-field">
        <TextField
          label="What others see"
          name="name"
          value={typed}
          onValue={setTyped}
          required
          maxLength={100}
          autocomplete="name"
        />
      </div>
      <Button type="submit" disabled={busy || typed.trim() === '' || typed.trim() === name}>
        Change the name
      </Button>
    </form>
  );
}

function Keys({ model }: { model: Model }) {
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
          { name: 'Made', label: 'made', cell: ({ created_at }) => <Time at={created_at} /> },
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
              may.
            </p>
          </Empty>
        }
      />
      {making && (
        <Ask
          title="Make a key"
          label="What it is for"
          button="Make the key"
          start="laptop"
          run={async (name) => {
            setMade(await model.makeKey(name));
            setMaking(false);
          }}
          onClose={() => setMaking(false)}
        />
      )}
      {made !== null && (
        <Dialog title="Your key" onClose={() => setMade(null)}>
          <div class="stack">
            <p>It is shown this once. With git, it is the password; any user name will do.</p>
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
