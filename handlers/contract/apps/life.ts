// What the life of an app writes down.

/**
 * A write to an app's row: `mark_asleep` sets `asleep_since`; `mark_awake` clears it and sets `woke_at`; `mark_running` is
 * that and sets what is desired; `mark_stopped` clears it and sets what is desired; `mark_asleep_again` puts both times
 * back as they were.
 */
export type Mark = 'mark_asleep' | 'mark_awake' | 'mark_asleep_again' | 'mark_running' | 'mark_stopped';
