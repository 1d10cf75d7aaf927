// The previews of an app, below its deploys: their addresses, status and actions.
import { useState } from 'preact/hooks';
import { authorName } from '../../models/deploys/deploys.ts';
import { type Preview, previewsModel } from '../../models/deploys/previews.ts';
import { Button, Link, LinkButton } from '../../parts/controls/button.tsx';
import { askFirst } from '../../parts/controls/confirm.tsx';
import { Dialog } from '../../parts/controls/dialog.tsx';
import { firstLine } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { remove } from '../../parts/tables/pages.tsx';
import { open } from '../../router.ts';

/** Renders nothing for an app without previews. */
export function Previews({ app }: { app: string }) {
  const model = useModel(() => previewsModel(app));
  const [log, setLog] = useState<{ name: string; text: string } | null>(null);
  const { previews } = model;
  if (previews.items.value.length === 0) return null;
  const promote = (name: string) =>
    askFirst({
      title: `Promote ${name}?`,
      about: `Its code replaces the release of ${app} that serves now; no request is dropped. Data of the preview is not copied.`,
      action: 'Promote the preview',
      run: async () => {
        const { id } = await model.promote(name);
        open({ name: 'deploy', app, deploy: id });
      },
    });
  return (
    <section class="panel" aria-labelledby="previews">
      <header>
        <h2 id="previews">Previews</h2>
        <Link to={{ name: 'settings', app }} class="small">
          When they are made
        </Link>
      </header>
      <ul class="lines">
        {previews.items.value.map((preview) => (
          <OnePreview
            key={preview.name}
            app={app}
            preview={preview}
            promote={() => promote(preview.name)}
            showLog={async () => setLog({ name: preview.name, text: await model.log(preview.name) })}
            drop={() =>
              remove(previews, preview, `The preview ${preview.name} is deleted`, () =>
                model.remove(preview.name),
              )
            }
          />
        ))}
      </ul>
      {log && (
        <Dialog large title={`The last deploy of ${log.name}`} onClose={() => setLog(null)}>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, by keyboard too */}
          <pre class="log-lines" tabIndex={0}>
            {log.text}
          </pre>
        </Dialog>
      )}
    </section>
  );
}

function OnePreview({
  app,
  preview: { name, url, branch, serves, deploy, expires_at },
  promote,
  showLog,
  drop,
}: {
  app: string;
  preview: Preview;
  promote: () => void;
  showLog: () => Promise<void>;
  drop: () => void;
}) {
  return (
    <li data-row class="tall">
      <span class="stack lines grow">
        <span class="row">
          {serves ? (
            <b>
              <a href={url} target="_blank" rel="noreferrer">
                {name}
              </a>
            </b>
          ) : (
            <b>{name}</b>
          )}
          <Status of={deploy?.status ?? 'queued'} />
        </span>
        <span class="muted small cut">
          {branch === null ? 'An upload' : `Branch ${branch}`}
          {deploy !== null && (
            <>
              {' '}
              of {authorName(deploy.author)}: {firstLine(deploy.message) || 'without a message'}
            </>
          )}
          , goes <Time at={expires_at} />
        </span>
        {deploy?.error && <span class="small danger cut">{firstLine(deploy.error)}</span>}
      </span>
      <span class="row">
        <LinkButton short look="quiet" to={{ name: 'logs', app }} query={{ preview: name }}>
          Log
        </LinkButton>
        <Button short look="quiet" disabled={deploy === null} onClick={showLog}>
          Build
        </Button>
        <Button needs="push" short disabled={!serves} onClick={promote}>
          Promote
        </Button>
        <Button needs="push" short look="danger" onClick={drop}>
          Delete
        </Button>
      </span>
    </li>
  );
}
