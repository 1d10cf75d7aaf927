// Webhooks and e-mail addresses that get the app's events.
import { useState } from 'preact/hooks';
import { ALERT_FORMATS, formatOf } from '../../../handlers/contract/telemetry/alert-format.ts';
import {
  ALERT_THRESHOLDS,
  DEFAULT_KINDS,
  INITIAL_THRESHOLDS,
  THRESHOLD_NAMES,
  type ThresholdName,
} from '../../../handlers/contract/telemetry/alert-kinds.ts';
import { Head } from '../../layout/head.tsx';
import { type Alert, type AlertChange, alertsModel, offersAlert } from '../../models/settings.ts';
import { Code } from '../../parts/code/code.tsx';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { Dialog, FormDialog } from '../../parts/controls/dialog.tsx';
import { Check, Select, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { IconBell, IconPencil, IconPlus } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Listed, remove } from '../../parts/tables/pages.tsx';
import { session } from '../../session.ts';

type Kind = Alert['on'][number];
const KINDS: readonly (readonly [Kind, string])[] = [
  ['error', 'A new error, or a resolved one that occurs again'],
  ['error_rate', 'Too many requests fail'],
  ['crash', 'The app crashes'],
  ['deploy', 'A deploy fails'],
  ['memory', 'The app uses much of its memory'],
  ['cpu', 'The app uses much processor time'],
  ['latency', 'Requests take long'],
  ['no_traffic', 'No requests come'],
  ['queue_backlog', 'Messages pile up in a queue'],
  ['disk', 'The disk of the machine has too little free space'],
  ['certificate', 'A domain gets no certificate'],
  ['snapshot', 'A snapshot of the app fails, or is damaged'],
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
  memory: 'memory',
  cpu: 'processor time',
  latency: 'latency',
  no_traffic: 'no traffic',
  queue_backlog: 'queues',
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
    if (error !== null) throw new Error(`The test message was not delivered: ${error}`);
    toast(status === null ? 'The mail server accepted the test message' : `The webhook answered ${status}`);
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
            { name: 'Format', cell: (alert) => <span class="one-line">{FORMATS[formatOf(alert)]}</span> },
            {
              name: 'Events',
              cell: ({ on, firing }) => (
                <>
                  {firing.length > 0 && <Status of="failed" word={namesOf(firing)} />} {eventsOf(on)}
                </>
              ),
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
              Each message is signed with this secret. The secret is shown only now; your webhook needs it to
              check that a message comes from Cellar.
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

/** Shows the kinds that an alert has. If it lacks at most two, names only those: "everything but …". */
function eventsOf(on: readonly Kind[]) {
  const missing = offered(on).filter((kind) => !on.includes(kind));
  if (missing.length > 2) return namesOf(on);
  return <span class="one-line">everything{missing.length > 0 && ` but ${namesOf(missing)}`}</span>;
}

/** The kinds that this machine can report, and those of an alert. */
function offered(on: readonly Kind[]): Kind[] {
  return KINDS.map(([kind]) => kind).filter((kind) => offersAlert(kind, session.value!, on));
}

function namesOf(kinds: readonly Kind[]): string {
  return kinds.map((kind) => SHORT[kind]).join(', ');
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
  const kinds = offered(alert?.on ?? []);
  const [on, setOn] = useState<Kind[]>(alert?.on ?? DEFAULT_KINDS.filter((kind) => kinds.includes(kind)));
  const [numbers, setNumbers] = useState<Partial<Record<ThresholdName, string>>>({});
  const shown = THRESHOLD_NAMES.filter((name) =>
    ALERT_THRESHOLDS[name].kinds.some((kind) => on.includes(kind)),
  );
  const numberOf = (name: ThresholdName) => numbers[name] ?? String((alert ?? INITIAL_THRESHOLDS)[name]);
  const to = /^[^:/]+@[^:/]+$/.test(url) ? `mailto:${url}` : url;
  const { busy, onSubmit } = useSubmit(async () => {
    await save({
      ...(alert && { alert_id: alert.id }),
      // Leaves out an unchanged URL: an admin of the machine may have set one that this person may not set.
      ...(to !== alert?.url && { url: to }),
      format,
      on,
      ...Object.fromEntries(shown.map((name) => [name, Number(numberOf(name))])),
    });
    onClose();
  });
  return (
    <FormDialog
      title={alert ? 'Change the alert' : 'Add an alert'}
      action={alert ? 'Change the alert' : 'Add the alert'}
      disabled={busy || on.length === 0}
      {...{ onSubmit, onClose }}
    >
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
        {KINDS.filter(([kind]) => kinds.includes(kind)).map(([kind, words]) => (
          <Check
            key={kind}
            label={words}
            value={on.includes(kind)}
            onValue={(value) => setOn(value ? [...on, kind] : on.filter((each) => each !== kind))}
          />
        ))}
      </fieldset>
      {shown.map((name) => (
        <TextField
          key={name}
          label={ALERT_THRESHOLDS[name].meaning}
          name={name}
          type="number"
          min={ALERT_THRESHOLDS[name].least}
          max={ALERT_THRESHOLDS[name].most}
          value={numberOf(name)}
          onValue={(value) => setNumbers({ ...numbers, [name]: value })}
          required
        />
      ))}
    </FormDialog>
  );
}
