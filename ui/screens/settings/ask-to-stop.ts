// Asks before an app is stopped.
import { askFirst } from '../../parts/controls/confirm.tsx';

/** Asks, then calls `stop`. */
export function askToStop(slug: string, stop: () => Promise<unknown>): void {
  askFirst({
    title: `Stop ${slug}?`,
    about:
      'It answers every request with 503, and its crons, alarms and queues wait, until somebody starts it. Its data stays.',
    action: 'Stop the app',
    danger: true,
    run: stop,
  });
}
