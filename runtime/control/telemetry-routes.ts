// The host's routes to an app's telemetry.
import type { HostCall } from '../../handlers/contract/host-routes.ts';
import type { AskName, Asks } from '../telemetry/protocol.ts';
import { type Telemetry, TelemetryError } from '../telemetry/telemetry.ts';
import type { HostRoutes } from './host-call.ts';
import { Refusal } from './refusal.ts';

/** The calls that are about an app's telemetry. */
export type TelemetryCall = Extract<HostCall, `${string}/telemetry/${string}`>;

/** Calls carry what the control plane has checked: the words of the contract. */
export function telemetryRoutes(telemetry: Telemetry): Pick<HostRoutes, TelemetryCall> {
  return {
    'GET /apps/:id/telemetry/metrics': ({ words, query }) =>
      ask(telemetry, 'metrics', { appId: words[0]!, hours: Number(query.get('hours')) }),
    'GET /apps/:id/telemetry/metrics/version': ({ words }) =>
      ask(telemetry, 'metrics/version', { appId: words[0]! }),
  };
}

async function ask<Name extends AskName>(
  telemetry: Telemetry,
  name: Name,
  params: Asks[Name]['params'],
): Promise<Asks[Name]['answer']> {
  try {
    return await telemetry.ask(name, params);
  } catch (error) {
    if (!(error instanceof TelemetryError)) throw error;
    throw error.code === null
      ? new Refusal(503, 'host_unavailable', error.message)
      : new Refusal(404, error.code, error.message);
  }
}
