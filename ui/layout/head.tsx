// The head of a screen.
import type { ComponentChildren } from 'preact';

/** Its title, what it is about in a sentence, and what can be done there, at the right. */
export function Head({
  title,
  about,
  status,
  children,
}: {
  title: ComponentChildren;
  about?: ComponentChildren;
  /** Beside the title. */
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
