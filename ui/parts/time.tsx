// Times as people say them, exact on hover and for screen readers.
import { signal } from '@preact/signals';
import { ago, exactTime, NONE } from './format.ts';

/** The present, to ten seconds. Reading it subscribes to it. */
export const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState !== 'hidden') now.value = Date.now();
}, 10_000);

/** `3 min ago`. Stays right while it is shown. */
export function Time({ at, otherwise = NONE }: { at: string | number | null; otherwise?: string }) {
  if (at === null) return <span class="muted">{otherwise}</span>;
  const exact = exactTime(at);
  const said = ago(at, Math.max(now.value, new Date(at).getTime() - 9_000));
  return (
    <time dateTime={new Date(at).toISOString()} title={exact}>
      {said}
    </time>
  );
}
