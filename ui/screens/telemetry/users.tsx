// The users that the app has identified.
import { useState } from 'preact/hooks';
import { Head } from '../../layout/head.tsx';
import { type User, usersModel } from '../../models/telemetry/people.ts';
import { Code } from '../../parts/code/code.tsx';
import { Button, Link } from '../../parts/controls/button.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { IconUsers } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { Listed } from '../../parts/tables/pages.tsx';
import { open } from '../../router.ts';
import { session } from '../../session.ts';
import { FromTheApp } from './from-the-app.tsx';

export default function Users({ app }: { app: string }) {
  const users = useModel(() => usersModel(app));
  const [user, setUser] = useState('');
  return (
    <>
      <Head
        title="Users"
        about="Users that the app has identified, the last identified first, with their properties."
      >
        <search>
          <form
            class="row"
            onSubmit={(event) => {
              event.preventDefault();
              open({ name: 'user', app, user });
            }}
          >
            <TextField
              label="Id of a user"
              unlabelled
              placeholder="Id of a user"
              value={user}
              onValue={setUser}
              required
              spellcheck={false}
            />
            <Button type="submit" disabled={user === ''}>
              Open
            </Button>
          </form>
        </search>
      </Head>
      <div class="panel">
        <Listed
          of={users}
          label="Users"
          columns={[
            {
              name: 'User',
              cell: ({ user_id }: User) => (
                <Link to={{ name: 'user', app, user: user_id }} class="main-cell">
                  {user_id}
                </Link>
              ),
            },
            {
              name: 'Known of them',
              wide: true,
              cell: ({ properties }) => (
                <span class="cut muted">
                  {Object.entries(properties)
                    .map(([name, value]) => `${name}: ${value}`)
                    .join(', ')}
                </span>
              ),
            },
            { name: 'Identified', cell: ({ updated_at }) => <Time at={updated_at} /> },
          ]}
          empty={
            <Empty title="Nobody yet" icon={IconUsers}>
              <FromTheApp call="await env.CELLAR.identify({ user_id: 'ada', properties: { plan: 'free' } });" />
              <p>Or from outside, by an API key with the role push:</p>
              <Code
                text={`curl ${session.value?.urls.api}/v1/apps/${app}/identify -H "authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '{"user_id": "ada", "properties": {"plan": "free"}}'`}
              />
            </Empty>
          }
        />
      </div>
    </>
  );
}
