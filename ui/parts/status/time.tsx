// Times as people say them, exact on hover and for screen readers.
import { signal } from '@preact/signals';
import { age, ago, exactTime, NONE } from '../format.ts';

const TICK_MS = 10_000;

/** The present, to ten seconds. Reading it subscribes to it. */
export const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState !== 'hidden') now.value = Date.now();
}, TICK_MS);

/** `3 min ago`. Stays right while it is shown. */
export function Time({ at, otherwise = NONE }: { at: string | number | null; otherwise?: string }) {
  if (at === null) return <span class="muted">{otherwise}</span>;
  const exact = exactTime(at);
  // What was just now may be ahead of the present of this page, which is that of up to ten seconds ago.
  const ahead = new Date(at).getTime() - now.value;
  const said = ago(at, ahead > 0 && ahead < TICK_MS ? now.value + ahead : now.value);
  return (
    <time dateTime={new Date(at).toISOString()} title={exact}>
      {said}
    </time>
  );
}

/** `3 min`, of what began then and lasts. */
export function Age({ since }: { since: string | number }) {
  return (
    <time dateTime={new Date(since).toISOString()} title={`since ${exactTime(since)}`}>
      {age(since, now.value)}
    </time>
  );
}
