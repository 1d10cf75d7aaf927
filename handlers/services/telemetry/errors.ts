// The grouped errors of an app. The host stores and streams them.
import { decodeNumbers, encodeCursor } from '../cursor.ts';
import type { Service } from '../types.ts';

const list: Service<'errors.list'> = async (context, { id, preview, status, limit, cursor }) => {
  const name = `errors.list ${id} ${preview ?? ''} ${status}`;
  const place = decodeNumbers(name, cursor, 2);
  const body = { preview, status, limit, afterAt: place?.[0], afterId: place?.[1] };
  const { items, next } = await context.host.call('POST /apps/:id/telemetry/errors', { id }, { body });
  const last = next === null ? null : [String(next.at), String(next.id)];
  return { items, next_cursor: encodeCursor(name, last) };
};

const get: Service<'errors.get'> = (context, { id, preview, fingerprint }) =>
  context.host.call('POST /apps/:id/telemetry/errors/get', { id }, { body: { preview, fingerprint } });

const setStatus: Service<'errors.set_status'> = (context, { id, fingerprint, status }) =>
  context.host.call('PUT /apps/:id/telemetry/errors/status', { id }, { body: { fingerprint, status } });

const stream: Service<'errors.stream'> = async (context, { id, status, last_event_id }, transport) => {
  const rpcMethod = transport === 'rpc' ? 'errors.stream' : undefined;
  const body = { status, after: last_event_id, rpcMethod };
  return (await context.host.bytes('POST /apps/:id/telemetry/errors/stream', { id }, { body })).body!;
};

export const errorServices = {
  'errors.list': list,
  'errors.get': get,
  'errors.set_status': setStatus,
  'errors.stream': stream,
};
