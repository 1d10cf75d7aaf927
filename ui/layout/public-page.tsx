// Layout of the screens that need no session.
import type { ComponentChildren } from 'preact';
import { Mark } from '../parts/code/mark.tsx';

/** A narrow centred card with a title, a description and a form. */
export function PublicPage({
  title,
  about,
  children,
}: {
  title: string;
  about?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <div class="public-page">
      <div class="card">
        <Mark size={36} />
        <div class="stack tight">
          <h1>{title}</h1>
          {about && <p class="muted">{about}</p>}
        </div>
        {children}
      </div>
      <p class="small muted">
        {location.host} · Cellar · <a href="/docs/control-ui">Docs</a>
      </p>
    </div>
  );
}
