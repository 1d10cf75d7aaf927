// The release that something happened in, in a list of terms.
import { Link } from '../controls/button.tsx';

/** The term and a link to the deploy that made the release. Nothing when `release` is null. */
export function Release({ app, release }: { app: string; release: string | null }) {
  if (release === null) return null;
  return (
    <>
      <dt>Release</dt>
      <dd>
        <Link to={{ name: 'deploy', app, deploy: release }} class="mono">
          {release}
        </Link>
      </dd>
    </>
  );
}
