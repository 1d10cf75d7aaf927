// The app's product events: live, by channel, by user.
import { Head } from '../../layout/head.tsx';
import { channelsModel, eventsModel } from '../../models/telemetry/people.ts';
import { Code } from '../../parts/code/code.tsx';
import { Select, TextField } from '../../parts/controls/field.tsx';
import { Events } from '../../parts/events.tsx';
import { count } from '../../parts/format.ts';
import { IconActivity } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { List } from '../../parts/tables/pages.tsx';
import { queryOf, setQuery } from '../../router.ts';
import { session } from '../../session.ts';
import { FromTheApp } from './from-the-app.tsx';

export default function EventsScreen({ app }: { app: string }) {
  const about = { channel: queryOf('channel'), event: queryOf('event'), user_id: queryOf('user') };
  const channels = useModel(() => channelsModel(app)).channels.data.value?.items ?? [];
  return (
    <>
      <Head title="Events" about="Product events that the app logs: a signup, an order, a job that ended.">
        <Select
          label="Channel"
          unlabelled
          value={about.channel}
          onValue={(channel) => setQuery({ channel })}
          options={[
            ['', 'All channels'],
            ...channels.map((each) => [each.channel, `${each.channel} (${count(each.count)})`] as const),
            ...(about.channel !== '' && !channels.some(({ channel }) => channel === about.channel)
              ? [[about.channel, about.channel] as const]
              : []),
          ]}
        />
        <search>
          <TextField
            label="Only of the user"
            unlabelled
            placeholder="Of one user: its id"
            value={about.user_id}
            onValue={(user) => setQuery({ user })}
            spellcheck={false}
          />
        </search>
      </Head>
      <Shown key={JSON.stringify(about)} {...{ app, about }} />
    </>
  );
}

function Shown({ app, about }: { app: string; about: Parameters<typeof eventsModel>[1] }) {
  const model = useModel(() => eventsModel(app, about));
  const isFiltered = Object.values(about).some((value) => value !== '');
  return (
    <div class="panel">
      <List
        of={model.before}
        items={model.items.value}
        empty={
          isFiltered ? (
            <Empty title="No such event">
              <p>No stored event matches the filter.</p>
            </Empty>
          ) : (
            <Empty title="No events yet" icon={IconActivity}>
              <FromTheApp call="await env.CELLAR.log({ channel: 'signups', event: 'Signed up', user_id: 'ada' });" />
              <p>Or from outside, by an API key with the role push:</p>
              <Code
                text={`curl ${session.value?.urls.api}/v1/apps/${app}/events -H "authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '{"channel": "signups", "event": "Signed up", "user_id": "ada"}'`}
              />
            </Empty>
          )
        }
      >
        {(rows) => <Events app={app} rows={rows} isFresh={model.isFresh} />}
      </List>
    </div>
  );
}
