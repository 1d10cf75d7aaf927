// Webhooks and e-mail addresses that get the app's events.
import { useState } from 'preact/hooks';
import { ALERT_FORMATS, formatOf } from '../../../handlers/contract/telemetry/alert-format.ts';
import { Head } from '../../layout/head.tsx';
import { type Alert, type AlertChange, alertsModel } from '../../models/settings.ts';
import { Code } from '../../parts/code/code.tsx';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { Check, Select, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconBell, IconPencil, IconPlus } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';

type Kind = Alert['on'][number];
const KINDS: readonly (readonly [Kind, string])[] = [
  ['error', 'A new error, or a resolved one that occurs again'],
  ['error_rate', 'Too many requests fail'],
  ['crash', 'The app crashes'],
  ['deploy', 'A deploy fails'],
  ['disk', 'The disk of the machine has too little free space'],
  ['certificate', 'A domain gets no certificate'],
  ['snapshot', 'A snapshot of the app is damaged'],
  ['bucket', 'The bucket does not answer, or answers again'],
  ['host', 'Another host is lost, or is back'],
];
const FORMATS: Record<Alert['format'] | 'email', string> = {
  auto: 'By the address',
  json: 'Signed JSON',
  slack: 'Slack',
  discord: 'Discord',
  ntfy: 'ntfy',
  teams: 'Teams',
  email: 'E-mail',
};
const SHORT: Record<Kind, string> = {
  error: 'errors',
  error_rate: 'error rate',
  crash: 'crashes',
  deploy: 'deploys',
  disk: 'disk',
  certificate: 'certificates',
  snapshot: 'snapshots',
  bucket: 'bucket',
  host: 'hosts',
};

export default function Alerts({ app }: { app: string }) {
  const model = useModel(() => alertsModel(app));
  const { alerts } = model;
  const [editing, setEditing] = useState<Alert | 'new' | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const test = async ({ id }: Alert) => {
    const { status, error } = await model.test(id);
    if (error !== null) throw new Error(`The test was not delivered: ${error}`);
    toast(status === null ? 'The mail server took the test' : `The webhook answered ${status}`);
  };
  return (
    <>
      <Head
        title="Alerts"
        about="Cellar notifies a webhook, a chat or an e-mail address when something happens to the app."
      >
        <Button needs="admin" look="primary" onClick={() => setEditing('new')}>
          <IconPlus /> Add an alert
        </Button>
      </Head>
      <div class="panel">
        <Listed
          of={alerts}
          label="Alerts"
          columns={[
            {
              name: 'To',
              wide: true,
              cell: ({ url }: Alert) => <span class="cut mono">{url.replace(/^mailto:/, '')}</span>,
            },
            { name: 'Format', cell: (alert) => FORMATS[formatOf(alert)] },
            {
              name: 'Events',
              cell: ({ on, error_rate }) =>
                on.length === KINDS.length
                  ? `everything, error rate over ${error_rate} %`
                  : on
                      .map((kind) =>
                        kind === 'error_rate' ? `error rate over ${error_rate} %` : SHORT[kind],
                      )
                      .join(', '),
            },
            { name: 'Last delivery', cell: ({ last_delivery }) => <Delivery of={last_delivery} /> },
            {
              name: 'What to do',
              silent: true,
              cell: (alert) => (
                <span class="row-actions">
                  <Button short onClick={() => test(alert)}>
                    Send a test
                  </Button>
                  <Button look="quiet" short label="Change this alert" onClick={() => setEditing(alert)}>
                    <IconPencil />
                  </Button>
                  <RemoveButton
                    label="Delete this alert"
                    onClick={() =>
                      remove(alerts, alert, 'The alert is deleted', () => model.delete(alert.id))
                    }
                  />
                </span>
              ),
            },
          ]}
          empty={
            <Empty title="No alerts" icon={IconBell}>
              <p>Messages go to a chat, a phone, a person by e-mail, or a Worker of yours on this machine.</p>
              <Button onClick={() => setEditing('new')}>Add an alert</Button>
            </Empty>
          }
        />
      </div>
      {editing && (
        <Editor
          alert={editing === 'new' ? null : editing}
          save={async (change) => setSecret(await model.set(change))}
          onClose={() => setEditing(null)}
        />
      )}
      {secret !== null && (
        <Dialog title="The alert is set" onClose={() => setSecret(null)}>
          <div class="stack">
            <p>
              Each message is signed with this secret. It is shown this once; your webhook needs it to know
              that a message is Cellar’s.
            </p>
            <Code text={secret} wrap label="Copy the secret" />
            <footer>
              <Button look="primary" onClick={() => setSecret(null)}>
                I have kept it
              </Button>
            </footer>
          </div>
        </Dialog>
      )}
    </>
  );
}

function Delivery({ of }: { of: Alert['last_delivery'] }) {
  if (of === null) return <span class="muted">None yet</span>;
  return (
    <span title={of.error ?? (of.status === null ? 'Sent' : `Answered ${of.status}`)}>
      <Status of={of.error === null ? 'done' : 'failed'} word={of.error === null ? 'delivered' : 'failed'} />{' '}
      <span class="muted">
        <Time at={of.at} />
      </span>
    </span>
  );
}

function Editor({
  alert,
  save,
  onClose,
}: {
  alert: Alert | null;
  save: (change: Omit<AlertChange, 'id'>) => Promise<void>;
  onClose: () => void;
}) {
  const [url, setUrl] = useState(alert?.url.replace(/^mailto:/, '') ?? '');
  const [format, setFormat] = useState<Alert['format']>(alert?.format ?? 'auto');
  const [on, setOn] = useState<Kind[]>(alert?.on ?? KINDS.map(([kind]) => kind));
  const [rate, setRate] = useState(String(alert?.error_rate ?? 5));
  const to = /^[^:/]+@[^:/]+$/.test(url) ? `mailto:${url}` : url;
  const { busy, onSubmit } = useSubmit(async () => {
    await save({ ...(alert && { alert_id: alert.id }), url: to, format, on, error_rate: Number(rate) });
    onClose();
  });
  return (
    <Dialog title={alert ? 'Change the alert' : 'Add an alert'} onClose={onClose}>
      <form class="stack" onSubmit={onSubmit}>
        <TextField
          label="Webhook or e-mail address"
          name="url"
          placeholder="https://example.com/hook or ada@example.com"
          value={url}
          onValue={setUrl}
          required
        />
        {!to.startsWith('mailto:') && (
          <Select
            label="Format"
            value={format}
            onValue={setFormat}
            options={ALERT_FORMATS.map((each) => [each, FORMATS[each]] as const)}
          />
        )}
        <fieldset class="stack tight plain">
          <legend>Events</legend>
          {KINDS.map(([kind, words]) => (
            <Check
              key={kind}
              label={words}
              value={on.includes(kind)}
              onValue={(value) => setOn(value ? [...on, kind] : on.filter((each) => each !== kind))}
            />
          ))}
        </fieldset>
        {on.includes('error_rate') && (
          <TextField
            label="Too many, in percent of the requests of five minutes"
            type="number"
            min={1}
            max={100}
            value={rate}
            onValue={setRate}
            required
          />
        )}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" disabled={busy || on.length === 0}>
            {alert ? 'Change the alert' : 'Add the alert'}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
