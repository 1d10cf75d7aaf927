// The log of an app. The host stores and streams it.
import { decodeNumbers, encodeCursor } from '../cursor.ts';
import type { Service } from '../types.ts';

const list: Service<'logs.list'> = async (
  context,
  { id, preview, cursor, since, until, trace_id, ...filter },
) => {
  const name = `logs.list ${id} ${preview ?? ''}`;
  const body = {
    ...filter,
    preview,
    since: since === undefined ? undefined : Date.parse(since),
    until: until === undefined ? undefined : Date.parse(until),
    traceId: trace_id,
    before: decodeNumbers(name, cursor, 1)?.[0],
  };
  const { items, next } = await context.host.call('POST /apps/:id/telemetry/logs', { id }, { body });
  return { items, next_cursor: encodeCursor(name, next === null ? null : [String(next)]) };
};

const stream: Service<'logs.stream'> = async (context, { id, last_event_id, ...filter }, transport) => {
  const rpcMethod = transport === 'rpc' ? 'logs.stream' : undefined;
  const body = { ...filter, after: last_event_id, rpcMethod };
  return (await context.host.bytes('POST /apps/:id/telemetry/logs/stream', { id }, { body })).body!;
};

export const logServices = { 'logs.list': list, 'logs.stream': stream };
