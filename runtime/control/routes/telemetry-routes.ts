// The host's routes to an app's telemetry.
import { errorCodes } from '../../../handlers/contract/errors.ts';
import type { BreakdownParams, HostCall } from '../../../handlers/contract/host/host-routes.ts';
import type { GroupStatus } from '../../../sqlite/telemetry/errors.ts';
import type { Apps } from '../../apps/apps.ts';
import { Refusal } from '../../refusal.ts';
import type { ErrorFollow } from '../../telemetry/errors/error-listener.ts';
import { LEVELS, type Level } from '../../telemetry/logs/log-lines.ts';
import type { LogFollow } from '../../telemetry/logs/log-listener.ts';
import type { AskName, Asks, FollowKind, StreamPiece } from '../../telemetry/protocol.ts';
import { TelemetryError } from '../../telemetry/questions.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import { type Call, type HostRoutes, readJson } from '../host-call.ts';
import type { LiveStreams } from './live-streams.ts';

/** What the routes need of the rest of the host. */
export interface TelemetryOptions {
  telemetry: Telemetry;
  streams: LiveStreams;
  apps: Apps;
}

/** The calls about an app's telemetry. */
export type TelemetryCall = Extract<HostCall, `${string}/telemetry/${string}`>;

/** Returns the routes of these calls. The control plane has validated their parameters. */
export function telemetryRoutes({
  telemetry,
  streams,
  apps,
}: TelemetryOptions): Pick<HostRoutes, TelemetryCall> {
  /** Returns the id of the preview that a call names, or of the app itself. */
  const subject = ({ words, query }: Call): string => {
    const name = query.get('preview');
    if (name === null) return words[0]!;
    const preview = apps.previews(words[0]!).find((row) => row.name === name);
    if (preview === undefined) throw new Refusal(404, 'preview_not_found', `the app has no preview ${name}`);
    return preview.id;
  };
  const open = (kind: FollowKind, call: Call, follow: LogFollow | ErrorFollow) => {
    const id = subject(call);
    streams.open(call.words[0]!, call.response, (take) =>
      telemetry.follow(
        id,
        kind,
        () => follow,
        (items) => {
          const pieces = items as StreamPiece[];
          // A restarted telemetry thread continues the stream from here.
          follow.after = pieces.findLast(({ lastId }) => lastId !== null)?.lastId ?? follow.after;
          take(pieces);
        },
      ),
    );
  };
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
    'GET /apps/:id/telemetry/logs': (call) => {
      const { query } = call;
      return ask(telemetry, 'logs', {
        appId: subject(call),
        limit: Number(query.get('limit')),
        search: query.get('search') ?? undefined,
        level: levelOf(query),
        since: numberOf(query, 'since'),
        until: numberOf(query, 'until'),
        traceId: query.get('traceId') ?? undefined,
        before: numberOf(query, 'before'),
      });
    },
    'GET /apps/:id/telemetry/logs/stream': (call) => {
      const { query } = call;
      const follow: LogFollow = {
        level: levelOf(query) ?? null,
        search: query.get('search'),
        after: numberOf(query, 'after') ?? null,
        rpcMethod: query.get('rpcMethod'),
        isTail: query.has('tail'),
      };
      open('logs', call, follow);
    },
    'GET /apps/:id/telemetry/requests/stream': ({ words, response }) =>
      streams.open(words[0]!, response, (take) =>
        telemetry.follow(
          words[0]!,
          'requests',
          () => null,
          (items) => take(items as StreamPiece[]),
        ),
      ),
    'GET /apps/:id/telemetry/errors': (call) => {
      const { query } = call;
      return ask(telemetry, 'errors', {
        appId: subject(call),
        status: statusOf(query),
        limit: Number(query.get('limit')),
        afterAt: numberOf(query, 'afterAt'),
        afterId: numberOf(query, 'afterId'),
      });
    },
    'GET /apps/:id/telemetry/errors/get': (call) =>
      ask(telemetry, 'errors/get', {
        appId: subject(call),
        fingerprint: call.query.get('fingerprint') ?? '',
      }),
    'PUT /apps/:id/telemetry/errors/status': async ({ request, words }) => {
      const changes = await readJson<'PUT /apps/:id/telemetry/errors/status'>(request);
      return ask(telemetry, 'errors/status', { appId: words[0]!, ...changes });
    },
    'GET /apps/:id/telemetry/errors/stream': (call) =>
      open('errors', call, {
        status: statusOf(call.query),
        after: numberOf(call.query, 'after') ?? null,
        rpcMethod: call.query.get('rpcMethod'),
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
