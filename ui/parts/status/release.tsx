// The release of a request, error or log line, as an entry of a description list.
import { Link } from '../controls/button.tsx';

/** The term "Release" with a link to its deploy. Renders nothing when `release` is null. */
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
