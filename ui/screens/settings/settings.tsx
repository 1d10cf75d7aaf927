// Settings of the app: builds, previews, source, maintenance, home, and its name; start, stop and delete.

import { useState } from 'preact/hooks';
import { SLUG_RULE } from '../../../handlers/contract/apps/slug.ts';
import { Head } from '../../layout/head.tsx';
import { type App, appModel } from '../../models/settings.ts';
import { Copy } from '../../parts/code/code.tsx';
import { Button, Link } from '../../parts/controls/button.tsx';
import { askFirst } from '../../parts/controls/confirm.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { useModel } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';
import { AppStatus } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { open } from '../../router.ts';
import { askToStop } from './ask-to-stop.ts';
import { DeleteApp } from './delete-app.tsx';
import { BuildSettings } from './settings-builds.tsx';
import { HomePanel } from './settings-home.tsx';
import { MaintenancePanel } from './settings-maintenance.tsx';
import { PreviewsPanel } from './settings-previews.tsx';
import { SourcePanel } from './settings-source.tsx';

export default function Settings({ app: slug }: { app: string }) {
  const model = useModel(() => appModel(slug));
  const [deleting, setDeleting] = useState(false);
  return (
    <>
      <Head title="Settings" />
      <Loaded of={model.app}>
        {(app) => (
          <div class="stack loose">
            {app.dispatch === null && (
              <section class="panel" aria-labelledby="name">
                <header>
                  <h2 id="name">Name</h2>
                </header>
                <Rename {...{ app, model }} />
              </section>
            )}
            <section class="panel" aria-labelledby="runs">
              <header>
                <h2 id="runs">Whether it runs</h2>
                <AppStatus of={app.status} isIdle={model.isIdle.value} since={app.asleep_since} />
              </header>
              <div class="body stack">
                <State {...{ app, model }} />
              </div>
            </section>
            <MaintenancePanel app={slug} onSet={model.app.refresh} />
            <HomePanel app={app} onMoved={model.app.refresh} />
            <SourcePanel app={slug} />
            <BuildSettings app={slug} />
            <PreviewsPanel app={slug} />
            <section class="panel" aria-labelledby="facts">
              <header>
                <h2 id="facts">What it is known by</h2>
              </header>
              <dl class="facts body">
                <dt>Id</dt>
                <dd>
                  <code>{app.id}</code> <Copy text={app.id} label="Copy the id" short />
                </dd>
                <dt>Address</dt>
                <dd>
                  {app.dispatch === null ? (
                    <a href={app.url} target="_blank" rel="noreferrer">
                      {app.url}
                    </a>
                  ) : (
                    `None: the script ${app.dispatch.script} of the dispatch namespace ${app.dispatch.namespace}`
                  )}
                </dd>
                <dt>Git remote</dt>
                <dd>
                  <code>{app.git_url}</code> <Copy text={app.git_url} label="Copy the remote" short />
                </dd>
                <dt>Data</dt>
                <dd>
                  {app.storage === 'bucket' ? 'In the bucket' : `On ${app.home?.name ?? 'this machine'}`}
                </dd>
                <dt>Made</dt>
                <dd>
                  <Time at={app.created_at} />
                </dd>
              </dl>
            </section>
            <section class="panel danger-zone" aria-labelledby="delete">
              <header>
                <h2 id="delete">Delete the app</h2>
                <Button needs="admin" look="danger" onClick={() => setDeleting(true)}>
                  <span class="cut">Delete {app.dispatch?.script ?? app.slug}</span>
                </Button>
              </header>
              <p class="body muted">
                The app stops answering at once. For 7 days you can undelete it, below the list of apps. Then
                its storage and repository are removed, except from snapshots that contain them.
              </p>
            </section>
            {deleting && (
              <DeleteApp
                name={app.dispatch?.script ?? app.slug}
                about="Visitors see that no app answers here. Its databases, objects, files and repository are moved to the trash. You can undelete it for 7 days."
                onDelete={async () => {
                  await model.delete();
                  toast(`${app.dispatch?.script ?? app.slug} is deleted`);
                  open({ name: 'apps' });
                }}
                onClose={() => setDeleting(false)}
              />
            )}
          </div>
        )}
      </Loaded>
    </>
  );
}

type Parts = { app: App; model: ReturnType<typeof appModel> };

function Rename({ app, model }: Parts) {
  const [slug, setSlug] = useState(app.slug);
  const rename = async () => {
    await model.rename(slug);
    toast(`The app is ${slug} now`);
    open({ name: 'settings', app: slug }, { replace: true });
  };
  const { busy, onSubmit } = useSubmit(async () =>
    askFirst({
      title: `Rename ${app.slug} to ${slug}?`,
      about: `${app.url} and the git remote stop working at once. Others who push need the new remote.`,
      action: 'Rename the app',
      run: rename,
    }),
  );
  return (
    <form class="body stack form" onSubmit={onSubmit}>
      <TextField
        label="Name"
        name="slug"
        value={slug}
        onValue={(value) => setSlug(value.toLowerCase())}
        pattern="[a-z0-9]([a-z0-9\-]*[a-z0-9])?"
        title={`It ${SLUG_RULE}.`}
        minLength={3}
        maxLength={40}
        required
        spellcheck={false}
        autocomplete="off"
        hint="Its address and its git remote change too; the old ones stop working. Its data stays."
      />
      <div>
        <Button needs="admin" type="submit" disabled={busy || slug === app.slug || slug === ''}>
          Rename the app
        </Button>
      </div>
    </form>
  );
}

function State({ app, model }: Parts) {
  if (app.desired_state === 'stopped')
    return (
      <>
        <p>The app is stopped: it answers with 503, and its crons, alarms and queues wait.</p>
        {app.last_error && <p class="danger">{app.last_error}</p>}
        <div class="row">
          <Button needs="admin" look="primary" onClick={model.start}>
            Start the app
          </Button>
        </div>
      </>
    );
  const sleeps = app.asleep_since !== null;
  return (
    <>
      <p>
        {sleeps ? (
          <>
            The app is sleeping since <Time at={app.asleep_since} />. The next request wakes it.
          </>
        ) : app.live_deploy_id === null ? (
          <>
            Nothing is deployed yet. <Link to={{ name: 'overview', app: app.slug }}>Bring code to it</Link>
          </>
        ) : (
          'The app answers. Without requests it becomes idle: no process runs, and the next request starts one.'
        )}
      </p>
      {app.last_error && <p class="danger">{app.last_error}</p>}
      <div class="row">
        {sleeps ? (
          <Button needs="admin" onClick={model.start}>
            Wake it
          </Button>
        ) : (
          app.live_deploy_id !== null && (
            <Button needs="push" onClick={model.sleep}>
              Put it to sleep
            </Button>
          )
        )}
        <Button needs="admin" onClick={() => askToStop(app.slug, model.stop)}>
          Stop the app
        </Button>
      </div>
    </>
  );
}
