// Accounts of the machine, and invites.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { LinkDialog } from '../../layout/link-dialog.tsx';
import { type Account, type Invite, type MadeLink, peopleModel } from '../../models/account/invites.ts';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { FormDialog } from '../../parts/controls/dialog.tsx';
import { Select, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { plural } from '../../parts/format.ts';
import { IconKey, IconUserPlus } from '../../parts/icons.tsx';
import { APP_ROLES, OpenInvites } from '../../parts/invites.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Badge } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';
import { sendsMail, session } from '../../session.ts';

type Model = ReturnType<typeof peopleModel>;
type AppRole = 'view' | 'push' | 'admin';

export default function People() {
  const model = useModel(peopleModel);
  const [inviting, setInviting] = useState(false);
  const [quota, setQuota] = useState<Account | null>(null);
  const [link, setLink] = useState<(MadeLink & { about: string }) | null>(null);
  const reset = async (account: Account) => {
    const made = await model.invite({ account: account.id });
    setLink({
      ...made,
      about: `With this link ${account.name} sets a new password. It works once, for 7 days.`,
    });
  };
  return (
    <>
      <Head
        title="People and invites"
        about="Administrators may do everything on this machine. Members have their own apps, and apps on which they have a role. Guests own no apps, and work only on apps that they were invited to."
      >
        <Button look="primary" onClick={() => setInviting(true)}>
          <IconUserPlus /> Invite somebody
        </Button>
      </Head>
      <div class="stack loose">
        <section class="panel" aria-labelledby="people">
          <header>
            <h2 id="people">People</h2>
          </header>
          <Listed
            of={model.accounts}
            label="People"
            empty={null}
            columns={[
              {
                name: 'Name',
                wide: true,
                cell: ({ id, name, email }: Account) => (
                  <span class="cut">
                    <b>{name}</b> <span class="muted">{email ?? 'no address'}</span>
                    {id === session.value?.account.id && <span class="muted">, you</span>}
                  </span>
                ),
              },
              { name: 'Role', cell: ({ role }) => <Role role={role} /> },
              {
                name: 'App quota',
                cell: (account) => (
                  <Button look="quiet" short onClick={() => setQuota(account)}>
                    {account.max_apps === null ? 'standard' : plural(account.max_apps, 'app')}
                    <span class="unseen">, change the quota of {account.name}</span>
                  </Button>
                ),
              },
              { name: 'Since', label: 'since', cell: ({ created_at }) => <Time at={created_at} /> },
              {
                name: 'What to do',
                silent: true,
                cell: (account) => (
                  <span class="row-actions">
                    {account.email !== null && (
                      <Button
                        look="quiet"
                        short
                        label={`Make a link with which ${account.name} sets a new password`}
                        onClick={() => reset(account)}
                      >
                        <IconKey />
                      </Button>
                    )}
                    {account.role !== 'owner' && account.id !== session.value?.account.id && (
                      <RemoveButton
                        label={`Delete the account of ${account.name}`}
                        onClick={() =>
                          remove(model.accounts, account, `The account of ${account.name} is deleted`, () =>
                            model.deleteAccount(account.id),
                          )
                        }
                      />
                    )}
                  </span>
                ),
              },
            ]}
          />
        </section>
        <section class="panel" aria-labelledby="invites">
          <header>
            <h2 id="invites">Invites that nobody has used yet</h2>
          </header>
          <OpenInvites
            of={model.invites}
            revoke={model.revoke}
            gives={{ name: 'Gives', cell: whatGives }}
            empty={
              <Empty title="No open invites">
                <p>An invite is a link. It makes an account, or gives a role on one app.</p>
              </Empty>
            }
          />
        </section>
      </div>
      {inviting && (
        <InviteForm
          model={model}
          onMade={(made) => {
            setInviting(false);
            setLink({
              ...made,
              about: 'Anyone with this link can use it once, within 7 days. It is shown only now.',
            });
          }}
          onClose={() => setInviting(false)}
        />
      )}
      {quota && <Quota account={quota} save={model.setMaxApps} onClose={() => setQuota(null)} />}
      {link && <LinkDialog link={link} about={link.about} onClose={() => setLink(null)} />}
    </>
  );
}

/** Asks for the number of apps that an account may own. */
function Quota({
  account: { id, name, max_apps },
  save,
  onClose,
}: {
  account: Account;
  save: Model['setMaxApps'];
  onClose: () => void;
}) {
  const [typed, setTyped] = useState(max_apps?.toString() ?? '');
  const { busy, onSubmit } = useSubmit(async () => {
    await save(id, typed === '' ? null : Number(typed));
    toast(`The quota of ${name} is changed`);
    onClose();
  });
  return (
    <FormDialog
      title={`App quota of ${name}`}
      action="Set the quota"
      disabled={busy}
      {...{ onSubmit, onClose }}
    >
      <TextField
        label="Apps that this account may own"
        name="max_apps"
        inputMode="numeric"
        pattern="[0-9]{1,5}"
        title="A whole number up to 99999."
        placeholder="standard"
        value={typed}
        onValue={setTyped}
        hint="Empty: the default of this machine, RUNNER_MAX_APPS_PER_USER. Existing apps stay."
        autocomplete="off"
      />
    </FormDialog>
  );
}

function whatGives({ role, app }: Invite): string {
  const onMachine = role === 'admin' ? 'administrator of the machine' : role;
  return app ? `${onMachine}, ${app.role} on ${app.slug}` : onMachine;
}

function Role({ role }: { role: Account['role'] }) {
  if (role === 'member' || role === 'guest') return <Badge>{role}</Badge>;
  return <Badge look="accent">{role === 'owner' ? 'first account' : 'administrator'}</Badge>;
}

function InviteForm({
  model,
  onMade,
  onClose,
}: {
  model: Model;
  onMade: (made: MadeLink) => void;
  onClose: () => void;
}) {
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Invite['role']>('member');
  const [app, setApp] = useState('');
  const [appRole, setAppRole] = useState<AppRole>('push');
  const { busy, onSubmit } = useSubmit(async () =>
    onMade(
      await model.invite({
        role,
        ...(email !== '' && { email }),
        ...(app !== '' && role !== 'admin' && { app: { id: app, role: appRole } }),
      }),
    ),
  );
  return (
    <FormDialog
      title="Invite somebody"
      action="Make the link"
      disabled={busy || (role === 'guest' && app === '')}
      {...{ onSubmit, onClose }}
    >
      <TextField
        label="Their e-mail address"
        name="email"
        type="email"
        value={email}
        onValue={setEmail}
        hint={
          sendsMail.value
            ? 'The link is sent there. Optional: otherwise the person enters it when using the link.'
            : 'Optional: otherwise the person enters it when using the link.'
        }
        autocomplete="off"
      />
      <Select
        label="On this machine"
        value={role}
        onValue={setRole}
        options={[
          ['member', 'Member: has apps of their own'],
          ['guest', 'Guest: works on one app, and owns none'],
          ['admin', 'Administrator: may do everything'],
        ]}
      />
      {role !== 'admin' && (
        <div class="two">
          <Select
            label="A role on an app"
            value={app}
            onValue={setApp}
            options={[
              ['', role === 'guest' ? 'Choose an app' : 'None'],
              ...(model.apps.data.value?.items ?? []).map(({ id, slug }) => [id, slug] as const),
            ]}
          />
          {app !== '' && (
            <Select label="Which role" value={appRole} onValue={setAppRole} options={APP_ROLES} />
          )}
        </div>
      )}
    </FormDialog>
  );
}
