// Collaborators of an app, and invites.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { LinkDialog } from '../../layout/link-dialog.tsx';
import type { MadeLink } from '../../models/account/invites.ts';
import { appInvitesModel, type Collaborator, collaboratorsModel } from '../../models/settings.ts';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { FormDialog } from '../../parts/controls/dialog.tsx';
import { Select, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconUserPlus, IconUsers } from '../../parts/icons.tsx';
import { APP_ROLES, OpenInvites } from '../../parts/invites.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { failed, toast } from '../../parts/status/toast.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';
import { may, role } from '../../role.ts';
import { isAdmin, sendsMail, session } from '../../session.ts';

type Role = Collaborator['role'];
type Model = ReturnType<typeof collaboratorsModel>;
type InvitesModel = ReturnType<typeof appInvitesModel>;

export default function Collaborators({ app }: { app: string }) {
  const model = useModel(() => collaboratorsModel(app, isAdmin.value));
  return (
    <>
      <Head
        title="Collaborators"
        about="People who may work on the app, besides its owner and the administrators of the machine."
      />
      <div class="stack loose">
        <section class="panel" aria-label="Collaborators">
          {isAdmin.value && <Add app={app} model={model} />}
          <List model={model} />
        </section>
        {role.value === 'admin' && <Invites app={app} />}
      </div>
    </>
  );
}

/** Gives an existing account a role. Only an admin of the machine sees all accounts. */
function Add({ app, model }: { app: string; model: Model }) {
  const { collaborators, accounts } = model;
  const [account, setAccount] = useState('');
  const [given, setGiven] = useState<Role>('push');
  const { busy, onSubmit } = useSubmit(async () => {
    await model.set(account, given);
    toast(`The person now has a role on ${app}`);
    setAccount('');
  });
  const known = new Set(collaborators.items.value.map((each) => each.account));
  // Leaves out admins of the machine, who have all rights already.
  const others = (accounts.data.value ?? []).filter(
    ({ id, role }) => (role === 'member' || role === 'guest') && !known.has(id),
  );
  return (
    <header>
      <form class="row grow bottoms" onSubmit={onSubmit}>
        <Select
          label="Person"
          value={account}
          onValue={setAccount}
          options={[
            ['', others.length === 0 ? 'Nobody else is here yet' : 'Choose a person'],
            ...others.map(({ id, name, email }) => [id, email ? `${name}, ${email}` : name] as const),
          ]}
        />
        <Select label="Role" value={given} onValue={setGiven} options={APP_ROLES} />
        <Button type="submit" look="primary" disabled={busy || account === ''}>
          Let them work on it
        </Button>
      </form>
    </header>
  );
}

function List({ model }: { model: Model }) {
  const { collaborators } = model;
  return (
    <Listed
      of={collaborators}
      label="Collaborators"
      columns={[
        {
          name: 'Person',
          wide: true,
          cell: ({ account, name, email }: Collaborator) => (
            <span class="cut">
              <b>{name}</b> <span class="muted">{email}</span>
              {account === session.value?.account.id && <span class="muted">, you</span>}
            </span>
          ),
        },
        {
          name: 'Role',
          cell: (each) =>
            may('admin') ? (
              <Select
                label={`Role of ${each.name}`}
                unlabelled
                value={each.role}
                onValue={(next) => model.set(each.account, next).catch(failed)}
                options={APP_ROLES}
              />
            ) : (
              each.role
            ),
        },
        { name: 'Since', label: 'since', cell: (each) => <Time at={each.created_at} /> },
        {
          name: 'What to do',
          silent: true,
          cell: (each) => (
            <RemoveButton
              needs="admin"
              label={`Take ${each.name} off the app`}
              onClick={() =>
                remove(collaborators, each, `${each.name} no longer has a role`, () =>
                  model.remove(each.account),
                )
              }
            />
          ),
        },
      ]}
      empty={
        <Empty title="Nobody else" icon={IconUsers}>
          <p>With a role somebody may look at the app, deploy it, or run it.</p>
        </Empty>
      }
    />
  );
}

function Invites({ app }: { app: string }) {
  const model = useModel(() => appInvitesModel(app));
  const [inviting, setInviting] = useState(false);
  const [link, setLink] = useState<MadeLink | null>(null);
  return (
    <section class="panel" aria-labelledby="invites">
      <header>
        <h2 id="invites">Invites that nobody has used yet</h2>
        <Button short look="primary" onClick={() => setInviting(true)}>
          <IconUserPlus /> Invite somebody
        </Button>
      </header>
      <OpenInvites
        of={model.invites}
        revoke={model.revoke}
        gives={{ name: 'Gives', cell: ({ role, app }) => `${app?.role}, as a ${role}` }}
        empty={
          <p class="body muted">
            An invite is a link that gives a person a role on this app. A person without an account gets a
            guest account, which owns no apps.
          </p>
        }
      />
      {inviting && (
        <InviteForm
          model={model}
          onMade={(made) => {
            setInviting(false);
            setLink(made);
          }}
          onClose={() => setInviting(false)}
        />
      )}
      {link && (
        <LinkDialog
          link={link}
          about="Anyone with this link can use it once, within 7 days. It is shown only now."
          onClose={() => setLink(null)}
        />
      )}
    </section>
  );
}

function InviteForm({
  model,
  onMade,
  onClose,
}: {
  model: InvitesModel;
  onMade: (made: MadeLink) => void;
  onClose: () => void;
}) {
  const [email, setEmail] = useState('');
  const [given, setGiven] = useState<Role>('push');
  const { busy, onSubmit } = useSubmit(async () => onMade(await model.invite(email.trim(), given)));
  return (
    <FormDialog title="Invite somebody" action="Make the link" disabled={busy} {...{ onSubmit, onClose }}>
      <TextField
        label="Their e-mail address"
        name="email"
        type="email"
        value={email}
        onValue={setEmail}
        hint={sendsMail.value ? 'The link is sent there.' : 'You get a link to send them.'}
        autocomplete="off"
        required
      />
      <Select label="Role" value={given} onValue={setGiven} options={APP_ROLES} />
      <p class="muted">
        A person without an account gets a guest account, which works on this app and cannot own apps.
      </p>
    </FormDialog>
  );
}
