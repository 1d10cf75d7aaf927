// The signed-in account: its name, its keys for git and programs, and its sign-in methods.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { accountModel } from '../../models/account/account.ts';
import { Button, LinkButton } from '../../parts/controls/button.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconHistory } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { toast } from '../../parts/status/toast.tsx';
import { provider, session } from '../../session.ts';
import { Keys } from './account-keys.tsx';
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
      <Head title="Account" about={`${account.email}, ${WORDS[account.role]} of this machine.`}>
        <LinkButton to={{ name: 'ownAudit' }}>
          <IconHistory /> What you changed
        </LinkButton>
      </Head>
      <div class="stack loose">
        <section class="panel" aria-labelledby="name">
          <header>
            <h2 id="name">Name</h2>
          </header>
          <Name model={model} name={account.name} />
        </section>
        <Keys model={model} />
        {!provider.value?.required && (
          <>
            <section class="panel" aria-labelledby="password">
              <header>
                <h2 id="password">Password</h2>
              </header>
              <Password model={model} />
            </section>
            <SecondFactor />
            <Passkeys model={model} />
          </>
        )}
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
