// Who else may work on the app.
import { useState } from 'preact/hooks';
import { Head } from '../layout/head.tsx';
import { type Collaborator, collaboratorsModel } from '../models/settings.ts';
import { Button, Link } from '../parts/button.tsx';
import { Select, TextField } from '../parts/field.tsx';
import { IconTrash2, IconUsers } from '../parts/icons.tsx';
import { useModel } from '../parts/model.ts';
import { More, remove } from '../parts/pages.tsx';
import { Empty, Loaded } from '../parts/states.tsx';
import { useSubmit } from '../parts/submit.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { failed, toast } from '../parts/toast.tsx';
import { may } from '../role.ts';
import { isAdmin } from '../session.ts';

type Role = Collaborator['role'];
const ROLES: readonly (readonly [Role, string])[] = [
  ['view', 'View: look at it'],
  ['push', 'Push: deploy, and see its data'],
  ['admin', 'Admin: everything'],
];

export default function Collaborators({ app }: { app: string }) {
  const model = useModel(() => collaboratorsModel(app, isAdmin.value));
  const { collaborators, accounts } = model;
  const [account, setAccount] = useState('');
  const [role, setRole] = useState<Role>('push');
  const { busy, onSubmit } = useSubmit(async () => {
    await model.set(account, role);
    toast(`${model.nameOf.value(account)} may work on ${app}`);
    setAccount('');
  });
  const known = new Set(collaborators.items.value.map((each) => each.account));
  // Administrators of the machine may do everything already.
  const others = (accounts.data.value ?? []).filter(({ id, role }) => role === 'member' && !known.has(id));
  return (
    <>
      <Head
        title="Collaborators"
        about="People of this machine who may work on the app, besides its owner and the administrators."
      />
      <section class="panel" aria-label="Collaborators">
        <header>
          <form class="row grow bottoms" onSubmit={onSubmit}>
            {isAdmin.value ? (
              <Select
                label="Person"
                value={account}
                onValue={setAccount}
                options={[
                  ['', others.length === 0 ? 'Nobody else is here yet' : 'Choose a person'],
                  ...others.map(({ id, name, email }) => [id, email ? `${name}, ${email}` : name] as const),
                ]}
              />
            ) : (
              <TextField
                label="Id of the account"
                value={account}
                onValue={setAccount}
                required
                spellcheck={false}
                autocomplete="off"
              />
            )}
            <Select label="Role" value={role} onValue={setRole} options={ROLES} />
            <Button needs="admin" type="submit" look="primary" disabled={busy || account === ''}>
              Let them work on it
            </Button>
          </form>
        </header>
        <Loaded of={collaborators.of}>
          {() =>
            collaborators.items.value.length === 0 ? (
              <Empty title="Nobody else" icon={IconUsers}>
                <p>
                  Somebody who has no account here yet gets one by an invitation, which can carry a role on
                  this app.
                </p>
                {isAdmin.value && <Link to={{ name: 'people' }}>Invite somebody</Link>}
              </Empty>
            ) : (
              <>
                <Table
                  label="Collaborators"
                  rows={collaborators.items.value}
                  keyOf={(each) => each.account}
                  columns={[
                    {
                      name: 'Person',
                      wide: true,
                      cell: (each: Collaborator) => (
                        <span class="cut">{model.nameOf.value(each.account)}</span>
                      ),
                    },
                    {
                      name: 'Role',
                      cell: (each) =>
                        may('admin') ? (
                          <Select
                            label={`Role of ${model.nameOf.value(each.account)}`}
                            unlabelled
                            value={each.role}
                            onValue={(next) => model.set(each.account, next).catch(failed)}
                            options={ROLES}
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
                        <Button
                          needs="admin"
                          look="quiet"
                          short
                          label={`Take ${model.nameOf.value(each.account)} off the app`}
                          onClick={() =>
                            remove(
                              collaborators,
                              each,
                              `${model.nameOf.value(each.account)} has no role any more`,
                              () => model.remove(each.account),
                            )
                          }
                        >
                          <IconTrash2 />
                        </Button>
                      ),
                    },
                  ]}
                />
                <More of={collaborators} />
              </>
            )
          }
        </Loaded>
      </section>
    </>
  );
}
