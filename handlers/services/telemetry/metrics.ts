// Metrics, requests, spans and data points of an app. The host stores them, so reading them does not wake a sleeping app.
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
const countries: Service<'countries.list'> = (context, input) => breakdown(context, 'countries', input);

interface Range {
  id: string;
  hours: number;
  limit: number;
  cursor?: string | undefined;
}

type Breakdown = 'devices' | 'paths' | 'refs' | 'countries';

async function breakdown<Name extends Breakdown>(
  context: Context,
  name: Name,
  { id, hours, limit, cursor }: Range,
): Promise<{ items: TelemetryAnswers[Name]['answer']['items']; next_cursor: string | null }> {
  const list = `${name}.list ${id} ${hours}`;
  const offset = decodeNumbers(list, cursor, 1)?.[0] ?? 0;
  const call = `POST /apps/:id/telemetry/${name as Breakdown}` as const;
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

const requests: Service<'requests.list'> = async (context, { id, limit, cursor, ...filter }) => {
  const list = `requests.list ${id} ${JSON.stringify(filter)}`;
  const before = decodeNumbers(list, cursor, 1)?.[0];
  const body = { ...filter, limit, before };
  const { items, next } = await context.host.call('POST /apps/:id/telemetry/requests', { id }, { body });
  return { items, next_cursor: encodeCursor(list, next === null ? null : [String(next)]) };
};

const trace: Service<'traces.get'> = (context, { id, trace_id }) =>
  context.host.call('POST /apps/:id/telemetry/trace', { id }, { body: { traceId: trace_id } });

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
  'countries.list': countries,
  'spans.list': spans,
  'requests.list': requests,
  'traces.get': trace,
  'datapoints.list': datapoints,
};
