// The release of an event, as an entry of a description list.
import { Link } from '../controls/button.tsx';

/** A term with a link to the deploy of the release. Renders nothing when `release` is null. */
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
