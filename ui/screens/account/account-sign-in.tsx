// Sign-in methods of the account (password, second factor, passkeys), and its signed-in browsers.
import { useState } from 'preact/hooks';
import { PASSWORD_MAX, PASSWORD_MIN } from '../../../handlers/contract/people/sign-in.ts';
import type { Failure } from '../../api.ts';
import {
  type accountModel,
  browserOf,
  type Passkey,
  passwordProblem,
  type SignedIn,
  secondFactorModel,
} from '../../models/account/account.ts';
import { hasPasskeys } from '../../models/account/sign-in.ts';
import { Code } from '../../parts/code/code.tsx';
import { QrCode } from '../../parts/code/qr-code.tsx';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { FormDialog } from '../../parts/controls/dialog.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconPlus } from '../../parts/icons.tsx';
import { useMade } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';
import { Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { remove } from '../../parts/tables/pages.tsx';
import { Table } from '../../parts/tables/table.tsx';
import { session } from '../../session.ts';

import { Ask } from './account-ask.tsx';

type Model = ReturnType<typeof accountModel>;

export function Password({ model }: { model: Model }) {
  const [present, setPresent] = useState('');
  const [next, setNext] = useState('');
  const [wrong, setWrong] = useState<string | null>(null);
  const { busy, onSubmit } = useSubmit(async () => {
    setWrong(null);
    try {
      await model.changePassword(present, next);
    } catch (error) {
      setWrong(passwordProblem(error as Failure));
      return;
    }
    setPresent('');
    setNext('');
    toast('The password is changed, and other browsers are signed out');
  });
  return (
    <form class="body stack form" onSubmit={onSubmit}>
      <input hidden type="text" autocomplete="username" value={session.value!.account.email} readOnly />
      <TextField
        label="Present password"
        name="current_password"
        type="password"
        value={present}
        onValue={setPresent}
        wrong={wrong}
        autocomplete="current-password"
        required
      />
      <TextField
        label="New password"
        name="password"
        type="password"
        value={next}
        onValue={setNext}
        minLength={PASSWORD_MIN}
        maxLength={PASSWORD_MAX}
        autocomplete="new-password"
        hint={`At least ${PASSWORD_MIN} characters.`}
        required
      />
      <div>
        <Button type="submit" disabled={busy || present === '' || next.length < PASSWORD_MIN}>
          Change the password
        </Button>
      </div>
    </form>
  );
}

export function SecondFactor() {
  const model = useMade(secondFactorModel);
  const [asking, setAsking] = useState<'on' | 'off' | null>(null);
  const isOn = session.value?.second_factor ?? false;
  const made = model.made.value;
  const [code, setCode] = useState('');
  const [wrong, setWrong] = useState<string | null>(null);
  const done = () => {
    model.made.value = null;
    setCode('');
    setWrong(null);
  };
  const { busy, onSubmit } = useSubmit(async () => {
    try {
      await model.finish(code);
    } catch (error) {
      if ((error as Failure).status !== 401) throw error;
      setWrong('This is not the code that the authenticator app shows now. A code is valid for 30 seconds.');
      return;
    }
    done();
    toast('From now on, a sign-in also needs a code');
  });
  return (
    <section class="panel" aria-labelledby="factor">
      <header>
        <h2 id="factor">Second factor</h2>
        <Status of={isOn ? 'done' : 'created'} word={isOn ? 'on' : 'off'} />
      </header>
      <div class="body row apart">
        <p class="muted">
          {isOn
            ? 'A sign-in needs your password and a code of your authenticator app.'
            : 'With a second factor, a sign-in needs your password and a code of an authenticator app.'}
        </p>
        {isOn ? (
          <Button onClick={() => setAsking('off')}>Turn it off</Button>
        ) : (
          <Button onClick={() => setAsking('on')}>Set it up</Button>
        )}
      </div>
      {asking !== null && (
        <Ask
          title={asking === 'on' ? 'Set up a second factor' : 'Turn the second factor off'}
          label="Your password"
          type="password"
          button={asking === 'on' ? 'Go on' : 'Turn it off'}
          run={async (password) => {
            try {
              await (asking === 'on' ? model.begin(password) : model.turnOff(password));
            } catch (error) {
              throw new Error(passwordProblem(error as Failure));
            }
            if (asking === 'off') toast('The second factor is off');
            setAsking(null);
          }}
          onClose={() => setAsking(null)}
        />
      )}
      {made && (
        <FormDialog
          title="Set up a second factor"
          onClose={done}
          onSubmit={onSubmit}
          action="Turn it on"
          disabled={busy || code.trim().length < 6}
        >
          <p>
            Scan this code with your authenticator app, or type the key into the app. On the phone with the
            app, <a href={made.uri}>open it there</a>.
          </p>
          <QrCode text={made.uri} label="The key for your authenticator app" />
          <Code text={made.secret} wrap label="Copy the key" />
          <p>Save these backup codes in a safe place. Each code works once, instead of a code of the app.</p>
          <Code text={made.backupCodes.join('\n')} label="Copy the codes" />
          <TextField
            label="The code that the app shows"
            value={code}
            onValue={setCode}
            wrong={wrong}
            inputMode="numeric"
            autocomplete="one-time-code"
            required
          />
        </FormDialog>
      )}
    </section>
  );
}

export function Passkeys({ model }: { model: Model }) {
  const { passkeys } = model;
  const [adding, setAdding] = useState(false);
  return (
    <section class="panel" aria-labelledby="passkeys">
      <header>
        <h2 id="passkeys">Passkeys</h2>
        {hasPasskeys() && (
          <Button short onClick={() => setAdding(true)}>
            <IconPlus /> Add a passkey
          </Button>
        )}
      </header>
      <Loaded of={passkeys.of}>
        {() =>
          passkeys.items.value.length === 0 ? (
            <p class="body muted">
              With a passkey you sign in with your fingerprint, your face or a security key.
              {!hasPasskeys() && ' To add one, open Cellar by HTTPS in a browser that has passkeys.'}
            </p>
          ) : (
            <Table
              label="Passkeys"
              rows={passkeys.items.value}
              keyOf={({ id }) => id}
              columns={[
                {
                  name: 'Name',
                  wide: true,
                  cell: ({ name }: Passkey) => <span class="cut">{name ?? 'Passkey'}</span>,
                },
                { name: 'Added', label: 'added', cell: ({ createdAt }) => <Time at={createdAt} /> },
                {
                  name: 'What to do',
                  silent: true,
                  cell: (passkey) => (
                    <RemoveButton
                      label={`Remove ${passkey.name ?? 'this passkey'}`}
                      onClick={() =>
                        remove(passkeys, passkey, 'The passkey is removed', () =>
                          model.removePasskey(passkey.id),
                        )
                      }
                    />
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {adding && (
        <Ask
          title="Add a passkey"
          label="Name of the passkey"
          start={browserOf(navigator.userAgent)}
          button="Go on"
          run={async (name) => {
            if (await model.addPasskey(name)) toast('You can sign in with the passkey from now on');
            setAdding(false);
          }}
          onClose={() => setAdding(false)}
        />
      )}
    </section>
  );
}

export function Sessions({ model }: { model: Model }) {
  const { sessions } = model;
  return (
    <section class="panel" aria-labelledby="sessions">
      <header>
        <h2 id="sessions">Browsers that are signed in</h2>
        {sessions.items.value.length > 1 && (
          <Button short onClick={model.endOtherSessions}>
            Sign out all others
          </Button>
        )}
      </header>
      <Loaded of={sessions.of}>
        {() => (
          <Table
            label="Browsers that are signed in"
            rows={sessions.items.value}
            keyOf={({ token }) => token}
            columns={[
              {
                name: 'Browser',
                wide: true,
                cell: ({ userAgent }: SignedIn) => (
                  <span class="cut" title={userAgent ?? ''}>
                    {browserOf(userAgent)}
                  </span>
                ),
              },
              { name: 'Address', cell: ({ ipAddress }) => <code>{ipAddress || '–'}</code> },
              { name: 'Signed in', label: 'signed in', cell: ({ createdAt }) => <Time at={createdAt} /> },
              {
                name: 'What to do',
                silent: true,
                cell: (each) => (
                  <Button short onClick={() => model.endSession(each.token)}>
                    Sign out
                  </Button>
                ),
              },
            ]}
          />
        )}
      </Loaded>
    </section>
  );
}
