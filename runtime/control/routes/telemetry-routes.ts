// The host's routes to an app's telemetry.
import { errorCodes } from '../../../handlers/contract/errors.ts';
import type { HostCall, TelemetryAnswers } from '../../../handlers/contract/host/host-routes.ts';
import type { Apps } from '../../apps/apps.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { Refusal } from '../../refusal.ts';
import type { ErrorFollow } from '../../telemetry/errors/error-listener.ts';
import type { LogFollow } from '../../telemetry/logs/log-listener.ts';
import type { AskName, Asks, FollowKind, StreamPiece } from '../../telemetry/protocol.ts';
import { TelemetryError } from '../../telemetry/questions.ts';
import { queryDatapoints } from '../../telemetry/sql/queries.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import { type Call, type HostRoutes, readJson } from '../host-call.ts';
import type { LiveStreams } from './live-streams.ts';

export interface TelemetryOptions {
  telemetry: Telemetry;
  streams: LiveStreams;
  apps: Apps;
  paths: Pick<Layout, 'telemetry'>;
}

export type TelemetryCall = Extract<HostCall, `${string}/telemetry/${string}`> | 'POST /datapoints/query';

/** Returns the routes. The control plane has checked the bodies of these calls, so they fit the contract. */
export function telemetryRoutes({
  telemetry,
  streams,
  apps,
  paths,
}: TelemetryOptions): Pick<HostRoutes, TelemetryCall> {
  /** Returns the id of an app, or of its preview of that name. @throws {Refusal} for an unknown preview */
  const subject = (appId: string, preview: string | undefined): string => {
    if (preview === undefined) return appId;
    const found = apps.previews(appId).find(({ name }) => name === preview);
    if (found === undefined) throw new Refusal(404, 'preview_not_found', `the app has no preview ${preview}`);
    return found.id;
  };
  const read =
    <Name extends keyof TelemetryAnswers>(name: Name) =>
    async ({ request, words }: Call): Promise<TelemetryAnswers[Name]['answer']> => {
      const { preview, ...asked } =
        await readJson<`POST /apps/:id/telemetry/${keyof TelemetryAnswers}`>(request);
      const own = name === 'refs' ? { own: apps.hostsOf(words[0]!) } : {};
      const params = { ...asked, ...own, appId: subject(words[0]!, preview) };
      return ask(telemetry, name, params as TelemetryAnswers[Name]['params']);
    };
  const open = (
    { words, response }: Call,
    kind: FollowKind,
    follow: LogFollow | ErrorFollow | null,
    id = words[0]!,
  ) =>
    streams.open(words[0]!, response, (take) =>
      telemetry.follow(
        id,
        kind,
        () => follow,
        (items) => {
          const pieces = items as StreamPiece[];
          // After a restart of the telemetry thread, the stream continues after this item.
          if (follow) follow.after = pieces.findLast(({ lastId }) => lastId !== null)?.lastId ?? follow.after;
          take(pieces);
        },
      ),
    );
  return {
    'POST /apps/:id/telemetry/metrics': read('metrics'),
    'POST /apps/:id/telemetry/metrics/version': read('metrics/version'),
    'POST /apps/:id/telemetry/devices': read('devices'),
    'POST /apps/:id/telemetry/paths': read('paths'),
    'POST /apps/:id/telemetry/refs': read('refs'),
    'POST /apps/:id/telemetry/countries': read('countries'),
    'POST /apps/:id/telemetry/requests': read('requests'),
    'POST /apps/:id/telemetry/trace': read('trace'),
    'POST /apps/:id/telemetry/spans': read('spans'),
    'POST /apps/:id/telemetry/datapoints': read('datapoints'),
    'POST /datapoints/query': async ({ request, response }) => {
      const asked = await readJson<'POST /datapoints/query'>(request);
      const { contentType, text } = await queryDatapoints(paths.telemetry, asked);
      response.writeHead(200, { 'content-type': contentType }).end(text);
    },
    'POST /apps/:id/telemetry/logs': read('logs'),
    'POST /apps/:id/telemetry/errors': read('errors'),
    'POST /apps/:id/telemetry/errors/get': read('errors/get'),
    'PUT /apps/:id/telemetry/errors/status': async ({ request, words }) => {
      const changes = await readJson<'PUT /apps/:id/telemetry/errors/status'>(request);
      return ask(telemetry, 'errors/status', { appId: words[0]!, ...changes });
    },
    'POST /apps/:id/telemetry/logs/stream': async (call) => {
      const { preview, level, search, after, rpcMethod, tail } =
        await readJson<'POST /apps/:id/telemetry/logs/stream'>(call.request);
      const follow = {
        level: level ?? null,
        search: search ?? null,
        after: after === undefined ? null : Number(after),
        rpcMethod: rpcMethod ?? null,
        isTail: tail === true,
      };
      open(call, 'logs', follow, subject(call.words[0]!, preview));
    },
    'POST /apps/:id/telemetry/errors/stream': async (call) => {
      const { preview, status, after, rpcMethod } = await readJson<'POST /apps/:id/telemetry/errors/stream'>(
        call.request,
      );
      const follow = {
        status,
        after: after === undefined ? null : Number(after),
        rpcMethod: rpcMethod ?? null,
      };
      open(call, 'errors', follow, subject(call.words[0]!, preview));
    },
    'GET /apps/:id/telemetry/requests/stream': (call) => open(call, 'requests', null),
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
    const code = error.code ?? 'host_unavailable';
    throw new Refusal(errorCodes[code].status, code, error.message);
  }
}
