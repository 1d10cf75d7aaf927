// The repository on a Git host from which the app is deployed: connecting it, its deploy key and webhook, and its fetches.
import { useState } from 'preact/hooks';
import { type Connection, type ConnectionChange, connectionModel } from '../../models/source/connection.ts';
import { Code, Copy } from '../../parts/code/code.tsx';
import { Button } from '../../parts/controls/button.tsx';
import { askFirst } from '../../parts/controls/confirm.tsx';
import { Select, TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { useModel } from '../../parts/model.ts';
import { Loaded, Notice } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { Table } from '../../parts/tables/table.tsx';
import { PullRequests } from './pull-requests.tsx';

type Model = ReturnType<typeof connectionModel>;

const MODES = [
  ['main', 'each commit of the branch'],
  ['tags', 'the tag with the highest version'],
  ['manual', 'only what I name'],
] as const;

export function SourcePanel({ app }: { app: string }) {
  const model = useModel(() => connectionModel(app));
  const [secret, setSecret] = useState<string | null>(null);
  const connect = async (change: ConnectionChange) => {
    setSecret(await model.connect(change));
    toast('The repository is connected');
  };
  return (
    <section class="panel" aria-labelledby="git-host">
      <header>
        <h2 id="git-host">Git host</h2>
      </header>
      <Loaded of={model.connection}>
        {({ of }) =>
          of === null ? <Connect connect={connect} /> : <Connected {...{ of, model, secret, setSecret }} />
        }
      </Loaded>
    </section>
  );
}

function Connect({ connect }: { connect: (change: ConnectionChange) => Promise<void> }) {
  const [url, setUrl] = useState('');
  const [branch, setBranch] = useState('main');
  const [mode, setMode] = useState<ConnectionChange['deploy_on']>('main');
  const [poll, setPoll] = useState('');
  const [token, setToken] = useState('');
  const { busy, onSubmit } = useSubmit(() =>
    connect({
      url: url.trim(),
      branch,
      deploy_on: mode,
      poll_minutes: poll === '' ? null : Number(poll),
      ...(token !== '' && { token }),
    }),
  );
  return (
    <form class="body stack form" onSubmit={onSubmit}>
      <p class="muted">
        Deploy from GitHub, GitLab, Forgejo, Gitea or any other Git host. Cellar makes a deploy key and a
        webhook address, which you then give to the Git host.
      </p>
      <TextField
        label="Repository"
        name="url"
        value={url}
        onValue={setUrl}
        placeholder="https://github.com/ada/shop"
        hint="For a private repository use git@host:path, or add a token."
        required
        spellcheck={false}
        autocomplete="off"
      />
      <TextField label="Branch" value={branch} onValue={setBranch} required spellcheck={false} />
      <Select label="What is deployed" value={mode ?? 'main'} onValue={setMode} options={MODES} />
      <TextField
        label="Look for pushes every … minutes"
        name="poll_minutes"
        type="number"
        min={1}
        max={1440}
        value={poll}
        onValue={setPoll}
        hint="Empty: only the webhook reports pushes. Give a number if the webhook cannot reach Cellar."
      />
      <TextField
        label="Token"
        type="password"
        value={token}
        onValue={setToken}
        hint="Reads a private repository over HTTPS, and reports previews to pull requests. It is kept encrypted, and never shown."
        autocomplete="off"
      />
      <div>
        <Button needs="admin" look="primary" type="submit" disabled={busy || url === ''}>
          Connect the repository
        </Button>
      </div>
    </form>
  );
}

interface ConnectedProps {
  of: Connection;
  model: Model;
  /** The secret of the webhook, just after it was created; null later. */
  secret: string | null;
  setSecret: (secret: string | null) => void;
}

function Connected({ of, model, secret, setSecret }: ConnectedProps) {
  const [ref, setRef] = useState('');
  const { busy, onSubmit } = useSubmit(async () => {
    const { deploy_id } = await model.sync(ref.trim());
    toast(deploy_id === null ? 'There is nothing new to deploy' : 'The fetched commit is being deployed');
  });
  const disconnect = () =>
    askFirst({
      title: 'Disconnect the repository?',
      about:
        'Pushes to it are no longer deployed, its pull requests lose their previews, and its deploy key and secret are deleted. The live release continues to serve.',
      action: 'Disconnect',
      danger: true,
      run: async () => {
        await model.disconnect();
        setSecret(null);
        toast('The repository is disconnected; the live release continues to serve');
      },
    });
  return (
    <div class="body stack">
      {secret !== null && (
        <Notice>
          <p>
            The secret of the webhook is shown only now. Give the Git host the secret and the address below.
          </p>
          <Code text={secret} label="Copy the secret" />
        </Notice>
      )}
      <dl class="facts">
        <dt>Repository</dt>
        <dd>
          <code>{of.url}</code>
        </dd>
        <dt>Deploys</dt>
        <dd>{of.deploy_on === 'main' ? `each commit of ${of.branch}` : modeText(of)}</dd>
        <dt>Last fetch</dt>
        <dd>
          {of.last_fetch === null ? 'none yet' : <Time at={of.last_fetch.at} />}{' '}
          {of.last_fetch?.sha && <code>{of.last_fetch.sha.slice(0, 8)}</code>}
        </dd>
        <dt>Webhook address</dt>
        <dd>
          <code>{of.webhook_url}</code> <Copy text={of.webhook_url} label="Copy the webhook address" short />
          <p class="small muted">
            At the Git host, choose the content type application/json, and pushes. For previews of pull
            requests, choose pull requests too.
          </p>
        </dd>
        <dt>Deploy key</dt>
        <dd>
          <code>{of.deploy_key}</code> <Copy text={of.deploy_key} label="Copy the deploy key" short />
          <p class="small muted">Only a private repository with an SSH address needs it.</p>
        </dd>
        {of.host_keys.map(({ type, fingerprint }) => (
          <>
            <dt>SSH server</dt>
            <dd>
              <code>
                {type} {fingerprint}
              </code>
            </dd>
          </>
        ))}
      </dl>
      {of.last_fetch?.error && <Notice look="danger">The last fetch failed: {of.last_fetch.error}</Notice>}
      <PullRequests of={of} model={model} />
      <Deliveries of={of} />
      <form class="stack form" onSubmit={onSubmit}>
        <TextField
          label="Tag or commit"
          name="ref"
          value={ref}
          onValue={setRef}
          hint="Empty: the branch or tag that is deployed automatically."
          spellcheck={false}
          autocomplete="off"
        />
        <div class="row">
          <Button needs="push" look="primary" type="submit" disabled={busy}>
            Fetch and deploy
          </Button>
          <Button needs="admin" onClick={disconnect}>
            Disconnect
          </Button>
        </div>
      </form>
    </div>
  );
}

function modeText({ deploy_on }: Connection): string {
  return MODES.find(([mode]) => mode === deploy_on)![1];
}

function Deliveries({ of }: { of: Connection }) {
  if (of.deliveries.length === 0) return <p class="muted">The webhook has not been called yet.</p>;
  return (
    <Table
      label="Deliveries of the webhook"
      columns={[
        { name: 'Delivered', cell: ({ at }) => <Time at={at} /> },
        { name: 'Event', cell: ({ event }) => event },
        { name: 'Result', cell: ({ result }) => result },
      ]}
      rows={of.deliveries}
      keyOf={({ at, delivery }) => `${at} ${delivery}`}
    />
  );
}
