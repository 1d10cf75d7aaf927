// The frame of what stands before the sign-in.
import type { ComponentChildren } from 'preact';
import { Mark } from '../parts/code/mark.tsx';

/** A narrow card in the middle: what one comes to, and what to do. */
export function Door({
  title,
  about,
  children,
}: {
  title: string;
  about?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <div class="door">
      <div class="card">
        <Mark size={36} />
        <div class="stack tight">
          <h1>{title}</h1>
          {about && <p class="muted">{about}</p>}
        </div>
        {children}
      </div>
      <p class="small muted">{location.host} · Cellar</p>
    </div>
  );
}
