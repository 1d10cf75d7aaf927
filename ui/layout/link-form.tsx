// The form that a link opens: it creates an account, accepts an invite, or sets a new password.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import {
  type LinkPurpose,
  PASSWORD_MAX,
  PASSWORD_MIN,
  type SignedIn,
} from '../../handlers/contract/people/sign-in.ts';
import { linkModel } from '../models/account/sign-in.ts';
import { Button, LinkButton } from '../parts/controls/button.tsx';
import { TextField } from '../parts/controls/field.tsx';
import { ProviderButton } from '../parts/controls/provider-button.tsx';
import { useSubmit } from '../parts/controls/submit.ts';
import { IconCircleAlert } from '../parts/icons.tsx';
import { useModel } from '../parts/model.ts';
import { Notice, SkeletonRows } from '../parts/status/states.tsx';
import { open, queryOf } from '../router.ts';
import { provider, session } from '../session.ts';
import { PublicPage } from './public-page.tsx';

type Model = ReturnType<typeof linkModel>;

/** @param props.path server route that creates the account or sets the password */
export function LinkForm({ path }: { path: '/welcome' | '/invites/accept' }) {
  const token = queryOf('token');
  const model = useModel(() => linkModel(path, token));
  const purpose = model.purpose.value;
  /** Whether the signed-in person wants to create another account. */
  const [isNew, setNew] = useState(false);
  const failure = model.failure.value;
  if (purpose === null && failure !== null) {
    const isGone = failure.status === 404 || failure.status === 400;
    return (
      <PublicPage
        title={isGone ? 'This link is no longer valid' : 'This link cannot be read now'}
        about={
          isGone
            ? 'The link was used or revoked, or is older than seven days. The person who sent it can make a new one.'
            : failure.message
        }
      >
        {isGone ? (
          <LinkButton to={{ name: 'signIn' }}>Go to the sign-in</LinkButton>
        ) : (
          <Button onClick={model.look}>Try again</Button>
        )}
      </PublicPage>
    );
  }
  if (purpose === null) return <PublicPage title="One moment">{<SkeletonRows rows={3} />}</PublicPage>;
  const account = session.value?.account;
  if (purpose.kind === 'invite' && account !== undefined && !isNew)
    return <Accept model={model} purpose={purpose} account={account} onOther={() => setNew(true)} />;
  const { title, about } = words(purpose);
  if (purpose.kind === 'invite' && provider.value?.required)
    return (
      <PublicPage title={title} about={about}>
        <div class="stack">
          <Problem of={model} />
          <ProviderButton onClick={model.byProvider} />
        </div>
      </PublicPage>
    );
  return (
    <Form model={model} purpose={purpose}>
      {purpose.kind === 'invite' && (
        <LinkButton to={{ name: 'signIn' }} query={{ invite: token }} look="quiet">
          I have an account here
        </LinkButton>
      )}
    </Form>
  );
}

/** Opens the app of the invite, else the list of apps. */
function enter({ app }: LinkPurpose) {
  if (app === null) open({ name: 'apps' }, { replace: true });
  else open({ name: 'overview', app: app.slug }, { replace: true });
}

/** Lets the signed-in person accept the invite. */
function Accept({
  model,
  purpose,
  account: { name, email },
  onOther,
}: {
  model: Model;
  purpose: LinkPurpose;
  account: SignedIn;
  onOther: () => void;
}) {
  const { busy, onSubmit } = useSubmit(async () => {
    if (await model.join()) enter(purpose);
  });
  return (
    <PublicPage title="You are invited" about={`${what(purpose)} You are signed in as ${name}, ${email}.`}>
      <form class="stack" onSubmit={onSubmit}>
        <Problem of={model} />
        <Button type="submit" look="primary" disabled={busy}>
          Accept
        </Button>
        <Button look="quiet" onClick={onOther}>
          Make another account
        </Button>
      </form>
    </PublicPage>
  );
}

function Problem({ of: { failure } }: { of: Model }) {
  if (failure.value === null) return null;
  return (
    <Notice look="danger" icon={IconCircleAlert}>
      {failure.value.message}
    </Notice>
  );
}

function Form({
  model,
  purpose,
  children,
}: {
  model: Model;
  purpose: LinkPurpose;
  children: ComponentChildren;
}) {
  const [name, setName] = useState(purpose.name ?? '');
  const [email, setEmail] = useState(purpose.email ?? '');
  const [password, setPassword] = useState('');
  const { busy, onSubmit } = useSubmit(async () => {
    if (await model.use({ name: name.trim(), email: email.trim(), password })) enter(purpose);
  });
  const wrong = model.fields.value;
  const { title, about, button } = words(purpose);
  // Screen readers announce the title.
  useEffect(() => {
    document.title = `${title} · Cellar`;
  }, [title]);
  return (
    <PublicPage title={title} about={about}>
      <form class="stack" onSubmit={onSubmit}>
        <Problem of={model} />
        {purpose.kind === 'invite' && <ProviderButton onClick={model.byProvider} />}
        <TextField
          label="Name"
          value={name}
          onValue={setName}
          wrong={wrong.name}
          autocomplete="name"
          maxLength={100}
          autofocus={name === ''}
          required
        />
        <TextField
          label="E-mail"
          name="email"
          type="email"
          value={email}
          onValue={setEmail}
          wrong={wrong.email}
          hint={purpose.email_fixed ? undefined : 'You sign in with this address.'}
          autocomplete="username"
          readOnly={purpose.email_fixed}
          required
        />
        <TextField
          label="Password"
          type="password"
          value={password}
          onValue={setPassword}
          wrong={wrong.password}
          hint={`At least ${PASSWORD_MIN} characters. A sentence is easy to remember.`}
          autocomplete="new-password"
          minLength={PASSWORD_MIN}
          maxLength={PASSWORD_MAX}
          autofocus={name !== ''}
          required
        />
        <Button type="submit" look="primary" disabled={busy}>
          {button}
        </Button>
        {children}
      </form>
    </PublicPage>
  );
}

function words(purpose: LinkPurpose): { title: string; about: string; button: string } {
  if (purpose.kind === 'welcome')
    return {
      title: 'Welcome to Cellar',
      about: 'This machine is ready. Make the first account: it runs the machine, and can invite others.',
      button: 'Make the account',
    };
  if (purpose.kind === 'account')
    return {
      title: 'A new password',
      about: 'Set the password that you sign in with from now on.',
      button: 'Set the password',
    };
  return {
    title: 'You are invited',
    about: provider.value?.required ? what(purpose) : `${what(purpose)} Make your account.`,
    button: 'Make the account',
  };
}

/** Returns what an invite allows, as a sentence. */
function what({ role, app }: LinkPurpose): string {
  if (role === 'admin') return 'With this link you may run this machine and all of its apps.';
  const may = { view: 'look at', push: 'deploy', admin: 'run' };
  const onApp = app && `${may[app.role]} the app ${app.slug}`;
  if (role === 'guest') return `With this link you may ${onApp}, as a guest, who owns no apps.`;
  return `With this link you may ${onApp ? `${onApp}, and ` : ''}bring your apps to this machine.`;
}
