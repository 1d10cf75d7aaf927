// The changes of one commit.
import { api } from '../../api.ts';
import { Head } from '../../layout/head.tsx';
import { resource } from '../../live.ts';
import { DiffSum, DiffView } from '../../parts/code/diff.tsx';
import { LinkButton } from '../../parts/controls/button.tsx';
import { shortSha } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { Loaded } from '../../parts/status/states.tsx';

export default function Commit({ app, sha }: { app: string; sha: string }) {
  const diff = useModel(() =>
    resource((signal) => api('source.diff', { id: app, from: `${sha}~1`, to: sha }, { signal })),
  );
  return (
    <>
      <Head
        title={
          <>
            Commit <code>{shortSha(sha)}</code>
          </>
        }
      >
        <LinkButton to={{ name: 'source', app, path: '' }} query={{ ref: sha }}>
          Files at this commit
        </LinkButton>
      </Head>
      <Loaded of={diff}>
        {(found) => (
          <div class="stack">
            <p>
              <DiffSum files={found.files} />
            </p>
            <DiffView diff={found} app={app} />
          </div>
        )}
      </Loaded>
    </>
  );
}
