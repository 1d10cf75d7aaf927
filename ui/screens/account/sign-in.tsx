// Sign in: by password, by passkey, with a second factor.
import { useState } from 'preact/hooks';
import { PublicPage } from '../../layout/public-page.tsx';
import { hasPasskeys, signInModel } from '../../models/account/sign-in.ts';
import { Button } from '../../parts/controls/button.tsx';
import { Check, TextField } from '../../parts/controls/field.tsx';
import { ProviderButton } from '../../parts/controls/provider-button.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconCircleAlert, IconFingerprintPattern } from '../../parts/icons.tsx';
import { useMade } from '../../parts/model.ts';
import { Notice } from '../../parts/status/states.tsx';
import { queryOf } from '../../router.ts';
import { isEnded, provider, sendsMail } from '../../session.ts';

export default function SignIn() {
  const model = useMade(() => signInModel(queryOf('error')));
  const step = model.step.value;
  if (step === 'password') return <ByPassword model={model} />;
  return step === 'code' || step === 'backup' ? <ByCode model={model} /> : <Forgot model={model} />;
}

type Model = ReturnType<typeof signInModel>;

function ByPassword({ model }: { model: Model }) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const { busy, onSubmit } = useSubmit(() => model.byPassword(email.trim(), password));
  const byProvider = () => model.byProvider(queryOf('invite'));
  const about = aboutSignIn();
  if (provider.value?.required)
    return (
      <PublicPage title="Sign in" about={about}>
        <div class="stack">
          <Wrong model={model} />
          <ProviderButton onClick={byProvider} />
        </div>
      </PublicPage>
    );
  return (
    <PublicPage title="Sign in" about={about}>
      <form class="stack" onSubmit={onSubmit}>
        <Wrong model={model} />
        <ProviderButton onClick={byProvider} />
        <Email value={email} onValue={setEmail} />
        <TextField
          label="Password"
          type="password"
          value={password}
          onValue={setPassword}
          autocomplete="current-password"
          required
        />
        <Button type="submit" look="primary" disabled={busy}>
          Sign in
        </Button>
        {hasPasskeys() && (
          <Button onClick={model.byPasskey}>
            <IconFingerprintPattern /> Sign in with a passkey
          </Button>
        )}
      </form>
      {sendsMail.value && (
        <Button look="quiet" onClick={() => goTo(model, 'forgot')}>
          I forgot my password
        </Button>
      )}
      <p class="small muted">
        No account, or cannot sign in? The operator of this machine can send you a link. The very first one is
        printed when Cellar starts.
      </p>
    </PublicPage>
  );
}

function aboutSignIn(): string {
  if (!isEnded.value) return 'To see and run the apps of this machine.';
  const kept = 'Your session has ended. What you typed is kept here until you sign in again.';
  return provider.value === null
    ? kept
    : `${kept} ${provider.value.name} opens in a new tab. Sign in there, then come back.`;
}

function Forgot({ model }: { model: Model }) {
  const [email, setEmail] = useState('');
  const { busy, onSubmit } = useSubmit(() => model.forgot(email.trim()));
  const back = <Button onClick={() => goTo(model, 'password')}>Back to the sign-in</Button>;
  if (model.step.value === 'sent')
    return (
      <PublicPage
        title="Look into your mail"
        about={`If an account here has the address ${email.trim()}, it gets a link now, which works for an hour.`}
      >
        {back}
      </PublicPage>
    );
  return (
    <PublicPage
      title="A new password"
      about="You get an e-mail with a link, with which you set a new password."
    >
      <form class="stack" onSubmit={onSubmit}>
        <Wrong model={model} />
        <Email value={email} onValue={setEmail} />
        <Button type="submit" look="primary" disabled={busy}>
          Send the link
        </Button>
        {back}
      </form>
    </PublicPage>
  );
}

function Email(props: { value: string; onValue: (value: string) => void }) {
  return (
    <TextField
      label="E-mail"
      type="email"
      {...props}
      // Browsers offer passkeys in this field.
      autocomplete="username webauthn"
      autofocus
      required
    />
  );
}

function goTo(model: Model, step: 'password' | 'forgot') {
  model.wrong.value = null;
  model.step.value = step;
}

function ByCode({ model }: { model: Model }) {
  const [code, setCode] = useState('');
  const [isTrusted, setTrusted] = useState(false);
  const { busy, onSubmit } = useSubmit(() => model.byCode(code, isTrusted));
  const isBackup = model.step.value === 'backup';
  const change = () => {
    setCode('');
    model.wrong.value = null;
    model.step.value = isBackup ? 'code' : 'backup';
  };
  return (
    <PublicPage
      title="One more step"
      about={
        isBackup
          ? 'One of the backup codes that you saved.'
          : 'The code that your authenticator app shows now.'
      }
    >
      <form class="stack" onSubmit={onSubmit}>
        <Wrong model={model} />
        <TextField
          key={String(isBackup)}
          label={isBackup ? 'Backup code' : 'Code of six digits'}
          value={code}
          onValue={setCode}
          inputMode={isBackup ? 'text' : 'numeric'}
          autocomplete="one-time-code"
          autofocus
          required
        />
        <Check label="Do not ask in this browser for 30 days" value={isTrusted} onValue={setTrusted} />
        <Button type="submit" look="primary" disabled={busy}>
          Sign in
        </Button>
        <Button look="quiet" onClick={change}>
          {isBackup ? 'Use the authenticator app' : 'Use a backup code'}
        </Button>
      </form>
    </PublicPage>
  );
}

function Wrong({ model }: { model: Model }) {
  if (model.wrong.value === null) return null;
  return (
    <Notice look="danger" icon={IconCircleAlert}>
      {model.wrong.value}
    </Notice>
  );
}
