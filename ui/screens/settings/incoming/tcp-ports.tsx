// TCP ports of an app.
import { useState } from 'preact/hooks';
import { tcpModel } from '../../../models/settings.ts';
import { Button, RemoveButton } from '../../../parts/controls/button.tsx';
import { TextField } from '../../../parts/controls/field.tsx';
import { useSubmit } from '../../../parts/controls/submit.ts';
import { IconNetwork } from '../../../parts/icons.tsx';
import { useModel } from '../../../parts/model.ts';
import { Empty } from '../../../parts/status/states.tsx';
import { Time } from '../../../parts/status/time.tsx';
import { toast } from '../../../parts/status/toast.tsx';
import { List, remove } from '../../../parts/tables/pages.tsx';
import { session } from '../../../session.ts';

/** Shows nothing when the operator allows no ports. */
export function TcpPorts({ app }: { app: string }) {
  const { tcp_ports: allowed } = session.value!;
  return allowed === '' ? null : <Ports {...{ app, allowed }} />;
}

function Ports({ app, allowed }: { app: string; allowed: string }) {
  const model = useModel(() => tcpModel(app));
  const { ports } = model;
  const [given, setGiven] = useState('');
  const { busy, onSubmit } = useSubmit(async () => {
    const { port } = await model.set(Number(given));
    toast(`The app gets the connections to port ${port}`);
    setGiven('');
  });
  return (
    <section class="panel" aria-label="TCP ports">
      <header>
        <form class="row grow" onSubmit={onSubmit}>
          <div class="domain-field">
            <TextField
              label="TCP port"
              unlabelled
              placeholder={`one of ${allowed}`}
              value={given}
              onValue={setGiven}
              required
              inputMode="numeric"
              autocomplete="off"
            />
          </div>
          <Button needs="admin" type="submit" disabled={busy || given === ''}>
            Add this port
          </Button>
        </form>
      </header>
      <List
        of={ports}
        empty={
          <Empty title="No TCP port" icon={IconNetwork}>
            <p>
              Add one of {allowed}. The app's <code>connect()</code> handler gets the connections.{' '}
              <a href="/docs/tcp" target="_blank" rel="noreferrer">
                TCP connections
              </a>
            </p>
          </Empty>
        }
      >
        {(items) => (
          <ul>
            {items.map((item) => (
              <li key={item.port} class="domain">
                <div class="row apart">
                  <span class="strong">{item.port}</span>
                  <span class="row-actions">
                    <RemoveButton
                      needs="admin"
                      label={`Remove port ${item.port}`}
                      onClick={() =>
                        remove(ports, item, `Port ${item.port} is removed`, () => model.remove(item.port))
                      }
                    />
                  </span>
                </div>
                <p class="muted">
                  added <Time at={item.created_at} />
                </p>
              </li>
            ))}
          </ul>
        )}
      </List>
    </section>
  );
}
