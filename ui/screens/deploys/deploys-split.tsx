// The two versions that share the requests of an app, above its deploys.
import { type SplitVersion, splitModel } from '../../models/deploys/split.ts';
import { Button } from '../../parts/controls/button.tsx';
import { askFirst } from '../../parts/controls/confirm.tsx';
import { firstLine } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { Time } from '../../parts/status/time.tsx';

/** Renders nothing for an app with one version. */
export function Split({ app }: { app: string }) {
  const model = useModel(() => splitModel(app));
  const versions = model.split.data.value?.versions ?? [];
  if (versions.length < 2) return null;
  const askToEnd = (version: SplitVersion) =>
    askFirst({
      title: `Send all requests to “${nameOf(version)}”?`,
      about: 'The other version gets no more requests; those that it has are answered.',
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

function nameOf({ tag, message, id }: SplitVersion): string {
  return firstLine(message) || tag || id;
}
