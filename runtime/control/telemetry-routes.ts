// The host's routes to an app's telemetry.
import type { ServerResponse } from 'node:http';
import { errorCodes } from '../../handlers/contract/errors.ts';
import type { BreakdownParams, HostCall } from '../../handlers/contract/host-routes.ts';
import type { GroupStatus } from '../../sqlite/telemetry/errors.ts';
import type { Apps } from '../apps/apps.ts';
import type { ErrorFollow } from '../telemetry/error-listener.ts';
import { LEVELS, type Level } from '../telemetry/log-lines.ts';
import type { LogFollow } from '../telemetry/log-listener.ts';
import type { AskName, Asks, FollowKind, StreamPiece } from '../telemetry/protocol.ts';
import { type Telemetry, TelemetryError } from '../telemetry/telemetry.ts';
import { type Call, type HostRoutes, readJson } from './host-call.ts';
import type { LiveStreams } from './live-streams.ts';
import { Refusal } from './refusal.ts';

/** What the routes need of the rest of the host. */
export interface TelemetryOptions {
  telemetry: Telemetry;
  streams: LiveStreams;
  apps: Apps;
}

/** The calls that are about an app's telemetry. */
export type TelemetryCall = Extract<HostCall, `${string}/telemetry/${string}`>;

/** Calls carry what the control plane has checked: the words of the contract. */
export function telemetryRoutes({
  telemetry,
  streams,
  apps,
}: TelemetryOptions): Pick<HostRoutes, TelemetryCall> {
  const open = (kind: FollowKind, appId: string, response: ServerResponse, follow: LogFollow | ErrorFollow) =>
    streams.open(appId, response, (take) =>
      telemetry.follow(
        appId,
        kind,
        () => follow,
        (items) => {
          const pieces = items as StreamPiece[];
          // A thread that is started again goes on there.
          follow.after = pieces.findLast(({ lastId }) => lastId !== null)?.lastId ?? follow.after;
          take(pieces);
        },
      ),
    );
  return {
    'GET /apps/:id/telemetry/metrics': ({ words, query }) =>
      ask(telemetry, 'metrics', { appId: words[0]!, hours: Number(query.get('hours')) }),
    'GET /apps/:id/telemetry/metrics/version': ({ words }) =>
      ask(telemetry, 'metrics/version', { appId: words[0]! }),
    'GET /apps/:id/telemetry/devices': (call) => ask(telemetry, 'devices', ranked(call)),
    'GET /apps/:id/telemetry/paths': (call) => ask(telemetry, 'paths', ranked(call)),
    'GET /apps/:id/telemetry/refs': (call) =>
      ask(telemetry, 'refs', { ...ranked(call), own: apps.hostsOf(call.words[0]!) }),
    'GET /apps/:id/telemetry/spans': ({ words, query }) =>
      ask(telemetry, 'spans', {
        appId: words[0]!,
        hours: Number(query.get('hours')),
        limit: Number(query.get('limit')),
        before: numberOf(query, 'before'),
      }),
    'GET /apps/:id/telemetry/datapoints': ({ words, query }) =>
      ask(telemetry, 'datapoints', {
        appId: words[0]!,
        hours: Number(query.get('hours')),
        dataset: query.get('dataset') ?? undefined,
        index: query.get('index') ?? undefined,
        limit: Number(query.get('limit')),
        before: numberOf(query, 'before'),
      }),
    'GET /apps/:id/telemetry/logs': ({ words, query }) =>
      ask(telemetry, 'logs', {
        appId: words[0]!,
        limit: Number(query.get('limit')),
        search: query.get('search') ?? undefined,
        level: levelOf(query),
        since: numberOf(query, 'since'),
        until: numberOf(query, 'until'),
        traceId: query.get('traceId') ?? undefined,
        before: numberOf(query, 'before'),
      }),
    'GET /apps/:id/telemetry/logs/stream': ({ words, query, response }) => {
      const follow: LogFollow = {
        level: levelOf(query) ?? null,
        search: query.get('search'),
        after: numberOf(query, 'after') ?? null,
        rpcMethod: query.get('rpcMethod'),
      };
      open('logs', words[0]!, response, follow);
    },
    'GET /apps/:id/telemetry/errors': ({ words, query }) =>
      ask(telemetry, 'errors', {
        appId: words[0]!,
        status: statusOf(query),
        limit: Number(query.get('limit')),
        afterAt: numberOf(query, 'afterAt'),
        afterId: numberOf(query, 'afterId'),
      }),
    'GET /apps/:id/telemetry/errors/get': ({ words, query }) =>
      ask(telemetry, 'errors/get', { appId: words[0]!, fingerprint: query.get('fingerprint') ?? '' }),
    'PUT /apps/:id/telemetry/errors/status': async ({ request, words }) => {
      const changes = await readJson<'PUT /apps/:id/telemetry/errors/status'>(request);
      return ask(telemetry, 'errors/status', { appId: words[0]!, ...changes });
    },
    'GET /apps/:id/telemetry/errors/stream': ({ words, query, response }) =>
      open('errors', words[0]!, response, {
        status: statusOf(query),
        after: numberOf(query, 'after') ?? null,
        rpcMethod: query.get('rpcMethod'),
      }),
  };
}

function numberOf(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  return text === null ? undefined : Number(text);
}

function statusOf(query: URLSearchParams): GroupStatus {
  return (query.get('status') ?? 'open') as GroupStatus;
}

function levelOf(query: URLSearchParams): Level | undefined {
  return LEVELS.find((level) => level === query.get('level'));
}

function ranked({ words, query }: Call): BreakdownParams {
  const number = (name: string) => Number(query.get(name));
  return { appId: words[0]!, hours: number('hours'), limit: number('limit'), offset: number('offset') };
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
    const code = error.code ?? 'host_unavailable';
    throw new Refusal(errorCodes[code].status, code, error.message);
  }
}
