// Relative times, exact on hover and for screen readers.
import { signal } from '@preact/signals';
import { age, ago, exactTime, NONE } from '../format.ts';

const TICK_MS = 10_000;

/** The current time, updated every ten seconds. Reading it subscribes to it. */
export const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState !== 'hidden') now.value = Date.now();
}, TICK_MS);

/** Shows a relative time, such as `3 min ago`, and keeps it up to date. */
export function Time({ at, otherwise = NONE }: { at: string | number | null; otherwise?: string }) {
  if (at === null) return <span class="muted">{otherwise}</span>;
  const exact = exactTime(at);
  // A recent time may be ahead of `now`, which is up to ten seconds old.
  const ahead = new Date(at).getTime() - now.value;
  const said = ago(at, ahead > 0 && ahead < TICK_MS ? now.value + ahead : now.value);
  return (
    <time dateTime={new Date(at).toISOString()} title={exact}>
      {said}
    </time>
  );
}

/** Shows the time since a start, such as `3 min`, and keeps it up to date. */
export function Age({ since }: { since: string | number }) {
  return (
    <time dateTime={new Date(since).toISOString()} title={`since ${exactTime(since)}`}>
      {age(since, now.value)}
    </time>
  );
}
