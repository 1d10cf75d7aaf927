// Who has an account on the machine, and links that invite more.
import { useState } from 'preact/hooks';
import { Head } from '../layout/head.tsx';
import { LinkDialog } from '../layout/link-dialog.tsx';
import { type Account, type Invite, type MadeLink, peopleModel } from '../models/invites.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Select, TextField } from '../parts/field.tsx';
import { IconKey, IconTrash2, IconUserPlus } from '../parts/icons.tsx';
import { useModel } from '../parts/model.ts';
import { Listed, More, remove } from '../parts/pages.tsx';
import { Empty, Loaded } from '../parts/states.tsx';
import { Badge } from '../parts/status.tsx';
import { useSubmit } from '../parts/submit.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { sendsMail, session } from '../session.ts';

type Model = ReturnType<typeof peopleModel>;
type AppRole = 'view' | 'push' | 'admin';

export default function People() {
  const model = useModel(peopleModel);
  const [inviting, setInviting] = useState(false);
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
        about="Administrators may do everything on this machine. Members have their own apps, and those that they were given a role on. Guests were invited by an app, and own none."
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
          <Loaded of={model.accounts.of}>
            {() => (
              <>
                <Table
                  label="People"
                  rows={model.accounts.items.value}
                  keyOf={({ id }) => id}
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
                            <Button
                              look="quiet"
                              short
                              label={`Delete the account of ${account.name}`}
                              onClick={() =>
                                remove(
                                  model.accounts,
                                  account,
                                  `The account of ${account.name} is deleted`,
                                  () => model.deleteAccount(account.id),
                                )
                              }
                            >
                              <IconTrash2 />
                            </Button>
                          )}
                        </span>
                      ),
                    },
                  ]}
                />
                <More of={model.accounts} />
              </>
            )}
          </Loaded>
        </section>
        <section class="panel" aria-labelledby="invites">
          <header>
            <h2 id="invites">Invites that nobody has used yet</h2>
          </header>
          <Invites model={model} />
        </section>
      </div>
      {inviting && (
        <InviteForm
          model={model}
          onMade={(made) => {
            setInviting(false);
            setLink({
              ...made,
              about: 'Whoever has this link can use it, once, for 7 days. It is shown this once.',
            });
          }}
          onClose={() => setInviting(false)}
        />
      )}
      {link && <LinkDialog link={link} about={link.about} onClose={() => setLink(null)} />}
    </>
  );
}

function Role({ role }: { role: Account['role'] }) {
  if (role === 'member' || role === 'guest') return <Badge>{role}</Badge>;
  return <Badge look="accent">{role === 'owner' ? 'first account' : 'administrator'}</Badge>;
}

function Invites({ model }: { model: Model }) {
  const { invites } = model;
  return (
    <Listed
      of={invites}
      label="Invites"
      columns={[
        {
          name: 'For',
          wide: true,
          cell: ({ email, account }: Invite) => (
            <span class="cut">{account !== null ? 'A new password' : (email ?? 'Whoever has the link')}</span>
          ),
        },
        {
          name: 'Gives',
          cell: ({ role, app }) =>
            app
              ? `${app.role} on ${app.slug}`
              : role === 'admin'
                ? 'administrator of the machine'
                : 'an account',
        },
        { name: 'Ends', label: 'ends', cell: ({ expires_at }) => <Time at={expires_at} /> },
        {
          name: 'What to do',
          silent: true,
          cell: (invite) => (
            <Button
              look="quiet"
              short
              label="Take this invite back"
              onClick={() =>
                remove(invites, invite, 'The invite is taken back', () => model.revoke(invite.id))
              }
            >
              <IconTrash2 />
            </Button>
          ),
        },
      ]}
      empty={
        <Empty title="No open invites">
          <p>An invite is a link. It makes an account, or gives a role on one app.</p>
        </Empty>
      }
    />
  );
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
  const [role, setRole] = useState<'member' | 'admin'>('member');
  const [app, setApp] = useState('');
  const [appRole, setAppRole] = useState<AppRole>('push');
  const { busy, onSubmit } = useSubmit(async () =>
    onMade(
      await model.invite({
        role,
        ...(email !== '' && { email }),
        ...(app !== '' && { app: { id: app, role: appRole } }),
      }),
    ),
  );
  return (
    <Dialog title="Invite somebody" onClose={onClose}>
      <form class="stack" onSubmit={onSubmit}>
        <TextField
          label="Their e-mail address"
          type="email"
          value={email}
          onValue={setEmail}
          hint={
            sendsMail.value
              ? 'The link is sent there. May be left out: then whoever uses the link says it.'
              : 'May be left out: then whoever uses the link says it.'
          }
          autocomplete="off"
        />
        <Select
          label="On this machine"
          value={role}
          onValue={setRole}
          options={[
            ['member', 'Member: has apps of their own'],
            ['admin', 'Administrator: may do everything'],
          ]}
        />
        {role === 'member' && (
          <div class="two">
            <Select
              label="A role on an app"
              value={app}
              onValue={setApp}
              options={[
                ['', 'None'],
                ...(model.apps.data.value?.items ?? []).map(({ id, slug }) => [id, slug] as const),
              ]}
            />
            {app !== '' && (
              <Select
                label="Which role"
                value={appRole}
                onValue={setAppRole}
                options={[
                  ['view', 'View: look at it'],
                  ['push', 'Push: deploy, and see its data'],
                  ['admin', 'Admin: everything'],
                ]}
              />
            )}
          </div>
        )}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" disabled={busy}>
            Make the link
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
