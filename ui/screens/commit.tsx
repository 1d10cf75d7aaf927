// One commit: what it changed.
import { api } from '../api.ts';
import { Head } from '../layout/head.tsx';
import { resource } from '../live.ts';
import { LinkButton } from '../parts/button.tsx';
import { DiffSum, DiffView } from '../parts/diff.tsx';
import { shortSha } from '../parts/format.ts';
import { useModel } from '../parts/model.ts';
import { Loaded } from '../parts/states.tsx';

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
