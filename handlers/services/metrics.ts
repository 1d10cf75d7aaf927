// What an app did, in figures. The host keeps them: an app that sleeps need not wake for them.
import { requireApp } from './apps.ts';
import type { Service } from './types.ts';

const get: Service<'metrics.get'> = async (context, { id, hours }) => {
  await requireApp(context, id);
  return context.host.telemetry('metrics', id, { hours });
};

const version: Service<'metrics.version'> = async (context, { id }) => {
  await requireApp(context, id);
  return context.host.telemetry('metrics/version', id);
};

export const metricServices = { 'metrics.get': get, 'metrics.version': version };
