// Marks in an app's row.

/**
 * A write to an app's row. `mark_asleep` sets `asleep_since`. `mark_awake` clears it and sets `woke_at`; `mark_running` also
 * sets the desired state. `mark_stopped` clears `asleep_since` and sets the desired state. `mark_asleep_again` restores both
 * times.
 */
export type Mark = 'mark_asleep' | 'mark_awake' | 'mark_asleep_again' | 'mark_running' | 'mark_stopped';
