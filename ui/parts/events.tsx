// Product events as rows.
import type { AppEvent } from '../models/telemetry/people.ts';
import { Link } from './controls/button.tsx';
import { Badge } from './status/status.tsx';
import { Time } from './status/time.tsx';
import { Table } from './tables/table.tsx';

/** @param props.app the app's slug @param props.isFresh whether to mark an event as new */
export function Events({
  app,
  rows,
  isFresh,
}: {
  app: string;
  rows: readonly AppEvent[];
  isFresh?: (event: AppEvent) => boolean;
}) {
  return (
    <Table
      label="Events"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[
        {
          name: 'Event',
          wide: true,
          cell: (event: AppEvent) => (
            <span class={isFresh?.(event) ? 'event glow' : 'event'}>
              <span>
                {event.icon && <span aria-hidden="true">{event.icon} </span>}
                <b>{event.event}</b>{' '}
                <Link
                  to={{ name: 'events', app }}
                  query={{ channel: event.channel }}
                  class="muted"
                >{`#${event.channel}`}</Link>
              </span>
              {event.description && <span class="muted">{event.description}</span>}
              {Object.keys(event.tags).length > 0 && (
                <span class="row tags">
                  {Object.entries(event.tags).map(([name, value]) => (
                    <Badge key={name}>{`${name}: ${value}`}</Badge>
                  ))}
                </span>
              )}
            </span>
          ),
        },
        {
          name: 'User',
          cell: ({ user_id }) =>
            user_id === null ? null : (
              <Link to={{ name: 'user', app, user: user_id }} class="who">
                {user_id}
              </Link>
            ),
        },
        { name: 'When', cell: ({ at }) => <Time at={at} /> },
      ]}
    />
  );
}
