// Product events, users and insights.
import { type EventRow, listChannels, listEvents } from '../../../sqlite/control/events/events.ts';
import { type InsightRow, listInsights, setInsight } from '../../../sqlite/control/events/insights.ts';
import { findUser, listUsers, mergeUser, type UserRow } from '../../../sqlite/control/events/users.ts';
import { unwrap } from '../../app/outcome.ts';
import { newId } from '../../contract/id.ts';
import { INSIGHTS_LIMIT, PROPERTIES_BYTES, USERS_LIMIT } from '../../contract/sizes.ts';
import type { Event } from '../../contract/telemetry/events.ts';
import { Problem } from '../../problem.ts';
import { decodeCursor, decodeNumbers } from '../cursor.ts';
import { listAnswer, pageAfter, withoutCreation } from '../paging.ts';
import { Replaced, type Service } from '../types.ts';

const list: Service<'events.list'> = async ({ reads }, { id, channel, event, user_id, limit, cursor }) => {
  const name = `events.list ${id}`;
  const before = decodeCursor(name, cursor, 2) as [string, string] | null;
  const filter = { channel: channel ?? null, event: event ?? null, user: user_id ?? null, before, limit };
  return listAnswer(name, await listEvents(reads, id, filter), toEvent);
};

const log: Service<'events.log'> = async (context, { id, tags, ...event }) => {
  const row: EventRow = {
    id: newId(),
    app_id: id,
    channel: event.channel,
    event: event.event,
    description: event.description ?? null,
    icon: event.icon ?? null,
    tags: JSON.stringify(tags ?? {}),
    user_id: event.user_id ?? null,
    at: event.at ?? context.at,
    created_at: context.at,
  };
  const shown = toEvent(row);
  unwrap(await context.app(id).logEvent(row, shown));
  return shown;
};

const channels: Service<'events.channels'> = async ({ reads }, { id, ...page }) => {
  const name = `events.channels ${id}`;
  return listAnswer(name, await listChannels(reads, id, pageAfter(name, page)), (row) => row);
};

const identify: Service<'users.identify'> = async ({ db, at }, { id, user_id, properties }) => {
  const row = await mergeUser(
    db,
    id,
    { user_id, properties: JSON.stringify(properties), at },
    { users: USERS_LIMIT, bytes: PROPERTIES_BYTES },
  );
  if (row === null) throw new Problem('app_not_found');
  if (row === undefined) throw propertiesRefusal();
  return row.created_at === row.updated_at ? toUser(row) : new Replaced(toUser(row));
};

function propertiesRefusal(): Problem {
  const message = `would take this user's properties over ${PROPERTIES_BYTES} bytes; remove some by setting them to null`;
  return new Problem('quota_exceeded', `properties: ${message}.`, [{ path: 'properties', message }]);
}

const users: Service<'users.list'> = async ({ reads }, { id, limit, cursor }) => {
  const name = `users.list ${id}`;
  const before = decodeNumbers(name, cursor, 1)?.[0] ?? null;
  return listAnswer(name, await listUsers(reads, id, { before, limit }), toUser);
};

const props: Service<'users.props'> = async ({ reads }, { id, user_id }) => {
  const row = await findUser(reads, id, user_id);
  if (row === null) throw new Problem('app_not_found');
  if (row === undefined) throw new Problem('user_not_found', `The app has not identified a user ${user_id}.`);
  return toUser(row);
};

const insightsList: Service<'insights.list'> = async ({ reads }, { id, ...page }) => {
  const name = `insights.list ${id}`;
  return listAnswer(name, await listInsights(reads, id, pageAfter(name, page)), withoutCreation<InsightRow>);
};

const insightsSet: Service<'insights.set'> = async ({ db, at }, { id, title, value, icon }) => {
  const change = typeof value === 'object' ? { value: value.$inc, add: true } : { value, add: false };
  const row = await setInsight(db, id, { title, ...change, icon: icon ?? null, at }, INSIGHTS_LIMIT);
  if (row === null) throw new Problem('app_not_found');
  if (row === undefined)
    throw new Problem('insight_not_numeric', `${title} is not a number, or would grow too large.`);
  const shown = withoutCreation(row);
  return row.created_at === row.updated_at ? shown : new Replaced(shown);
};

export const eventServices = {
  'events.list': list,
  'events.log': log,
  'events.channels': channels,
  'users.identify': identify,
  'users.list': users,
  'users.props': props,
  'insights.list': insightsList,
  'insights.set': insightsSet,
};

function toEvent(row: EventRow): Event {
  return { ...row, tags: JSON.parse(row.tags) as Event['tags'] };
}

function toUser({ user_id, properties, updated_at }: UserRow) {
  return {
    user_id,
    properties: JSON.parse(properties) as Record<string, string | number | boolean>,
    updated_at,
  };
}
