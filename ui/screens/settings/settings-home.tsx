// The host that runs an app, in a Cellar with several hosts, and moving the app to another one.
import { useState } from 'preact/hooks';
import { homeModel } from '../../models/hosts.ts';
import type { App } from '../../models/settings.ts';
import { Button, Link } from '../../parts/controls/button.tsx';
import { Select } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { useModel } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { seesHosts } from '../../session.ts';

/** @param props.onMoved called after a move; reads the app again */
export function HomePanel({ app, onMoved }: { app: App; onMoved: () => Promise<void> }) {
  const { home, storage } = app;
  if (home === null) return null;
  return (
    <section class="panel" aria-labelledby="home">
      <header>
        <h2 id="home">Where it runs</h2>
        {seesHosts.value ? (
          <Link to={{ name: 'hosts' }} query={{ host: home.id }}>
            {home.name}
          </Link>
        ) : (
          <span>{home.name}</span>
        )}
      </header>
      {storage === 'local' ? (
        <p class="body muted">
          Its data is on the disk of this host. To move the app to another one, first move its data:{' '}
          <code>cellar move {app.slug} --to bucket</code>
        </p>
      ) : seesHosts.value ? (
        // A new key resets the choice: after a move, other hosts can be chosen.
        <Move key={home.id} {...{ app, onMoved }} home={home.id} />
      ) : (
        <p class="body muted">Administrators of the machine can move it to another host.</p>
      )}
    </section>
  );
}

function Move({ app, home, onMoved }: { app: App; home: string; onMoved: () => Promise<void> }) {
  const model = useModel(() => homeModel(app.id, home));
  const [to, setTo] = useState('');
  const { busy, onSubmit } = useSubmit(async () => {
    await model.move(to);
    const host = model.hosts.data.value?.find(({ id }) => id === to);
    toast(`${app.slug} runs on ${host?.name} now`);
    await onMoved();
  });
  return (
    <Loaded of={model.hosts}>
      {(hosts) =>
        hosts.length === 0 ? (
          <p class="body muted">No other host takes apps now.</p>
        ) : (
          <form class="body stack form" onSubmit={onSubmit}>
            <Select
              label="Another host"
              hint="Requests wait while it moves, usually for less than a second."
              value={to}
              onValue={setTo}
              options={[
                ['', 'Choose a host'],
                ...hosts.map(({ id, name, address }) => [id, `${name} (${address})`] as const),
              ]}
            />
            <div>
              <Button type="submit" disabled={busy || to === ''}>
                Move the app
              </Button>
            </div>
          </form>
        )
      }
    </Loaded>
  );
}
