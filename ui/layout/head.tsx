// Header of a screen.
import type { ComponentChildren } from 'preact';

/** Title, one sentence of description, and actions at the right. */
export function Head({
  title,
  about,
  status,
  children,
}: {
  title: ComponentChildren;
  about?: ComponentChildren;
  /** Shown beside the title. */
  status?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <header class="screen-head">
      <h1>{title}</h1>
      {status}
      {children && <div class="actions">{children}</div>}
      {about && <p>{about}</p>}
    </header>
  );
}
