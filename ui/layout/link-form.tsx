// The form of a link that makes an account, or gives one a new password.
import { useEffect, useState } from 'preact/hooks';
import { type LinkPurpose, PASSWORD_MAX, PASSWORD_MIN } from '../../handlers/contract/sign-in.ts';
import { linkModel } from '../models/doors.ts';
import { Button, LinkButton } from '../parts/button.tsx';
import { TextField } from '../parts/field.tsx';
import { IconCircleAlert } from '../parts/icons.tsx';
import { useModel } from '../parts/model.ts';
import { Notice, SkeletonRows } from '../parts/states.tsx';
import { useSubmit } from '../parts/submit.ts';
import { open, queryOf } from '../router.ts';
import { Door } from './door.tsx';

/** @param props.path where the link is used */
export function LinkForm({ path }: { path: '/welcome' | '/invites/accept' }) {
  const token = queryOf('token');
  const model = useModel(() => linkModel(path, token));
  const purpose = model.purpose.value;
  const failure = model.failure.value;
  if (purpose === null && failure !== null) {
    const isGone = failure.status === 404 || failure.status === 400;
    return (
      <Door
        title={isGone ? 'This link leads nowhere any more' : 'This link cannot be read now'}
        about={
          isGone
            ? 'It was used or taken back, or is older than seven days. Whoever sent it can make a new one.'
            : failure.message
        }
      >
        {isGone ? (
          <LinkButton to={{ name: 'signIn' }}>Go to the sign-in</LinkButton>
        ) : (
          <Button onClick={model.look}>Try again</Button>
        )}
      </Door>
    );
  }
  if (purpose === null) return <Door title="One moment">{<SkeletonRows rows={3} />}</Door>;
  return <Form model={model} purpose={purpose} />;
}

function Form({ model, purpose }: { model: ReturnType<typeof linkModel>; purpose: LinkPurpose }) {
  const [name, setName] = useState(purpose.name ?? '');
  const [email, setEmail] = useState(purpose.email ?? '');
  const [password, setPassword] = useState('');
  const { busy, onSubmit } = useSubmit(async () => {
    if (!(await model.use({ name: name.trim(), email: email.trim(), password }))) return;
    if (purpose.app === null) open({ name: 'apps' }, { replace: true });
    else open({ name: 'overview', app: purpose.app.slug }, { replace: true });
  });
  const wrong = model.fields.value;
  const failure = model.failure.value;
  const { title, about, button } = words(purpose);
  // What one came for is read aloud.
  useEffect(() => {
    document.title = `${title} · Cellar`;
  }, [title]);
  return (
    <Door title={title} about={about}>
      <form class="stack" onSubmit={onSubmit}>
        {failure && (
          <Notice look="danger" icon={IconCircleAlert}>
            {failure.message}
          </Notice>
        )}
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
          type="email"
          value={email}
          onValue={setEmail}
          wrong={wrong.email}
          hint={purpose.email_fixed ? undefined : 'You sign in with it.'}
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
          hint={`At least ${PASSWORD_MIN} characters. A sentence is easy to keep.`}
          autocomplete="new-password"
          minLength={PASSWORD_MIN}
          maxLength={PASSWORD_MAX}
          autofocus={name !== ''}
          required
        />
        <Button type="submit" look="primary" disabled={busy}>
          {button}
        </Button>
      </form>
    </Door>
  );
}

function words({ kind, role, app }: LinkPurpose): { title: string; about: string; button: string } {
  if (kind === 'welcome')
    return {
      title: 'Welcome to Cellar',
      about: 'This machine is ready. Make the first account: it runs the machine, and can invite others.',
      button: 'Make the account',
    };
  if (kind === 'account')
    return {
      title: 'A new password',
      about: 'Set the password that you sign in with from now on.',
      button: 'Set the password',
    };
  const may = { view: 'look at', push: 'deploy', admin: 'run' };
  const what =
    app !== null
      ? `Make an account to ${may[app.role]} the app ${app.slug}.`
      : role === 'admin'
        ? 'Make an account to run this machine and all of its apps.'
        : 'Make an account to bring your apps to this machine.';
  return { title: 'You are invited', about: what, button: 'Make the account' };
}
