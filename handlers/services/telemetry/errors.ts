// The grouped errors of an app. The host stores and streams them.
import { requireApp } from '../apps/apps.ts';
import { decodeNumbers, encodeCursor } from '../cursor.ts';
import type { Service } from '../types.ts';

const list: Service<'errors.list'> = async (context, { id, preview, status, limit, cursor }) => {
  await requireApp(context, id);
  const name = `errors.list ${id} ${preview ?? ''} ${status}`;
  const place = decodeNumbers(name, cursor, 2);
  const body = { preview, status, limit, afterAt: place?.[0], afterId: place?.[1] };
  const { items, next } = await context.host.call('POST /apps/:id/telemetry/errors', { id }, { body });
  const last = next === null ? null : [String(next.at), String(next.id)];
  return { items, next_cursor: encodeCursor(name, last) };
};

const get: Service<'errors.get'> = async (context, { id, preview, fingerprint }) => {
  await requireApp(context, id);
  return context.host.call('POST /apps/:id/telemetry/errors/get', { id }, { body: { preview, fingerprint } });
};

const setStatus: Service<'errors.set_status'> = async (context, { id, fingerprint, status }) => {
  await requireApp(context, id);
  return context.host.call(
    'PUT /apps/:id/telemetry/errors/status',
    { id },
    { body: { fingerprint, status } },
  );
};

const stream: Service<'errors.stream'> = async (context, { id, status, last_event_id }, transport) => {
  await requireApp(context, id);
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
