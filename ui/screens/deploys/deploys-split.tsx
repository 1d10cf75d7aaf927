// The two versions that share the requests of an app, above its deploys.
import { useState } from 'preact/hooks';
import { type SplitVersion, share, splitModel } from '../../models/deploys/split.ts';
import { Button } from '../../parts/controls/button.tsx';
import { askFirst } from '../../parts/controls/confirm.tsx';
import { FormDialog } from '../../parts/controls/dialog.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { firstLine } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { Time } from '../../parts/status/time.tsx';
import { open } from '../../router.ts';

/** Renders nothing for an app with one version. */
export function Split({ app }: { app: string }) {
  const model = useModel(() => splitModel(app));
  const versions = model.split.data.value?.versions ?? [];
  if (versions.length < 2) return null;
  const askToEnd = (version: SplitVersion) =>
    askFirst({
      title: `Send all requests to “${nameOf(version)}”?`,
      about: 'The other version gets no more requests; its requests in progress are still answered.',
      action: 'Send all requests to it',
      run: () => model.end(version.id),
    });
  return (
    <section class="panel" aria-labelledby="split">
      <header>
        <h2 id="split">Two versions share the requests</h2>
      </header>
      <ul class="lines">
        {versions.map((version) => (
          <li key={version.id} data-row class="tall">
            <span class="stack lines grow">
              <b class="cut">{nameOf(version)}</b>
              <span class="muted small cut">
                <code>{version.id}</code>, made <Time at={version.created_at} />
              </span>
            </span>
            <span class="row">
              <b>{version.percentage} %</b>
              <Button needs="push" short onClick={() => askToEnd(version)}>
                Send all requests
              </Button>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Asks for the percentage of the requests that a version gets beside the live release. */
export function ShareDialog({
  app,
  version,
  onClose,
}: {
  app: string;
  version: string;
  onClose: () => void;
}) {
  const [percentage, setPercentage] = useState('10');
  const { busy, onSubmit } = useSubmit(async () => {
    await share(app, version, Number(percentage));
    open({ name: 'deploys', app });
  });
  return (
    <FormDialog
      title="Share the requests"
      action={busy ? 'Starting the version' : 'Share the requests'}
      disabled={busy}
      {...{ onSubmit, onClose }}
    >
      <p>
        This version gets a part of the requests, chosen at random. The live release gets the other requests.
        The next deploy ends the split.
      </p>
      <TextField
        label="Requests for this version, in percent"
        type="number"
        min={1}
        max={99}
        value={percentage}
        onValue={setPercentage}
        hint="Only for versions without databases, objects and other stored data."
        required
      />
    </FormDialog>
  );
}

function nameOf({ tag, message, id }: SplitVersion): string {
  return firstLine(message) || tag || id;
}
