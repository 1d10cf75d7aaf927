// Metrics of an app. The host stores them, so a sleeping app need not wake.
import type { Context } from '../../context.ts';
import type { TelemetryAnswers } from '../../contract/host/host-routes.ts';
import { decodeNumbers, encodeCursor } from '../cursor.ts';
import type { Service } from '../types.ts';

const get: Service<'metrics.get'> = (context, { id, hours }) =>
  context.host.call('POST /apps/:id/telemetry/metrics', { id }, { body: { hours } });

const version: Service<'metrics.version'> = (context, { id }) =>
  context.host.call('POST /apps/:id/telemetry/metrics/version', { id }, { body: {} });

const devices: Service<'devices.list'> = (context, input) => breakdown(context, 'devices', input);
const paths: Service<'paths.list'> = (context, input) => breakdown(context, 'paths', input);
const refs: Service<'refs.list'> = (context, input) => breakdown(context, 'refs', input);

interface Range {
  id: string;
  hours: number;
  limit: number;
  cursor?: string | undefined;
}

async function breakdown<Name extends 'devices' | 'paths' | 'refs'>(
  context: Context,
  name: Name,
  { id, hours, limit, cursor }: Range,
): Promise<{ items: TelemetryAnswers[Name]['answer']['items']; next_cursor: string | null }> {
  const list = `${name}.list ${id} ${hours}`;
  const offset = decodeNumbers(list, cursor, 1)?.[0] ?? 0;
  const call = `POST /apps/:id/telemetry/${name as 'devices' | 'paths' | 'refs'}` as const;
  const { items, next } = await context.host.call(call, { id }, { body: { hours, limit, offset } });
  return { items, next_cursor: encodeCursor(list, next === null ? null : [String(next)]) };
}

const spans: Service<'spans.list'> = async (context, { id, hours, limit, cursor }) => {
  const list = `spans.list ${id}`;
  const before = decodeNumbers(list, cursor, 1)?.[0];
  const body = { hours, limit, before };
  const { items, next } = await context.host.call('POST /apps/:id/telemetry/spans', { id }, { body });
  return { items, next_cursor: encodeCursor(list, next === null ? null : [String(next)]) };
};

const datapoints: Service<'datapoints.list'> = async (context, { id, limit, cursor, ...filter }) => {
  const list = `datapoints.list ${id} ${JSON.stringify(filter)}`;
  const before = decodeNumbers(list, cursor, 1)?.[0];
  const body = { ...filter, limit, before };
  const { items, next } = await context.host.call('POST /apps/:id/telemetry/datapoints', { id }, { body });
  return { items, next_cursor: encodeCursor(list, next === null ? null : [String(next)]) };
};

export const metricServices = {
  'metrics.get': get,
  'metrics.version': version,
  'devices.list': devices,
  'paths.list': paths,
  'refs.list': refs,
  'spans.list': spans,
  'datapoints.list': datapoints,
};
