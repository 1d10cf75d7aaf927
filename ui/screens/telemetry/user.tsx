// One user of the app: properties and events.
import { Head } from '../../layout/head.tsx';
import { userModel } from '../../models/telemetry/people.ts';
import { Events } from '../../parts/events.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Loaded } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { List } from '../../parts/tables/pages.tsx';

export default function UserScreen({ app, user: id }: { app: string; user: string }) {
  const { user, events } = useModel(() => userModel(app, id));
  return (
    <>
      <Head title={id} />
      <div class="stack loose">
        <section class="panel" aria-labelledby="properties">
          <Loaded of={user}>
            {({ properties, updated_at }) => (
              <>
                <header>
                  <h2 id="properties">What the app knows</h2>
                  <span class="muted">
                    identified <Time at={updated_at} />
                  </span>
                </header>
                {Object.keys(properties).length === 0 ? (
                  <p class="body muted">Nothing but the id.</p>
                ) : (
                  <dl class="facts body">
                    {Object.entries(properties).map(([name, value]) => [
                      <dt key={name}>{name}</dt>,
                      <dd key={`${name} value`}>{String(value)}</dd>,
                    ])}
                  </dl>
                )}
              </>
            )}
          </Loaded>
        </section>
        <section class="panel" aria-labelledby="events">
          <header>
            <h2 id="events">Events</h2>
          </header>
          <List of={events} empty={<Empty title="No events of this user" />}>
            {(rows) => <Events {...{ app, rows }} />}
          </List>
        </section>
      </div>
    </>
  );
}
