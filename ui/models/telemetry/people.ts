// Product events, their users, and insights.
import { computed, signal } from '@preact/signals';
import { api, type Result } from '../../api.ts';
import { live, resource } from '../../live.ts';
import { pages } from '../pages.ts';

export type AppEvent = Result<'events.stream'>;
export type User = Result<'users.props'>;
export type Insight = Result<'insights.list'>['items'][number];

const PAGE = 50;
/** Maximum new events in a list. */
const FRESH = 500;

export function channelsModel(id: string) {
  const channels = resource((signal) => api('events.channels', { id, limit: 200 }, { signal }), {
    everyMs: 30_000,
  });
  return { channels, close: channels.close };
}

/** Events of an app, newest first, with live updates. @param about filters the events; an empty value matches any */
export function eventsModel(id: string, about: { channel: string; event: string; user_id: string }) {
  const filter = Object.fromEntries(Object.entries(about).filter(([, value]) => value !== ''));
  const before = pages(
    (cursor, signal) => api('events.list', { id, limit: PAGE, cursor, ...filter }, { signal }),
    (event: AppEvent) => event.id,
  );
  const fresh = signal<readonly AppEvent[]>([]);
  const fits = (event: AppEvent) =>
    Object.entries(filter).every(([name, value]) => event[name as keyof typeof about] === value);
  const stop = live(
    'events.stream',
    { id },
    {
      onItems(items) {
        fresh.value = [...items.filter(fits).toReversed(), ...fresh.peek()].slice(0, FRESH);
      },
      onReset: () => void before.refresh(),
    },
  );
  const items = computed(() => {
    const known = new Set(before.items.value.map((event) => event.id));
    return [...fresh.value.filter((event) => !known.has(event.id)), ...before.items.value];
  });
  return {
    before,
    items,
    /** Whether an event arrived by the stream. The screen marks such events. */
    isFresh: (event: AppEvent) => fresh.value.some((each) => each.id === event.id),
    close() {
      stop();
      before.close();
    },
  };
}

export function usersModel(id: string) {
  return pages(
    (cursor, signal) => api('users.list', { id, limit: PAGE, cursor }, { signal }),
    ({ user_id }: User) => user_id,
  );
}

export function userModel(id: string, user_id: string) {
  const user = resource((signal) => api('users.props', { id, user_id }, { signal }));
  const events = pages(
    (cursor, signal) => api('events.list', { id, user_id, limit: PAGE, cursor }, { signal }),
    (event: AppEvent) => event.id,
  );
  return {
    user,
    events,
    close() {
      user.close();
      events.close();
    },
  };
}

export function insightsModel(id: string) {
  return pages(
    (cursor, signal) => api('insights.list', { id, limit: 200, cursor }, { signal }),
    ({ title }: Insight) => title,
    { everyMs: 10_000 },
  );
}
