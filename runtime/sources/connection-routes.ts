// The host's routes for connected repositories, from which apps are deployed.
import type { HostCall } from '../../handlers/contract/host/host-routes.ts';
import { type HostRoutes, readJson } from '../control/host-call.ts';
import type { Outbox } from '../control/outbox.ts';
import { clientLeft } from '../sockets/client-left.ts';
import type { Sources } from './sources.ts';

const FLUSH_MS = 1_000;

export type ConnectionCall = Extract<HostCall, `${string}/connection${string}`>;

export interface ConnectionOptions {
  sources: Sources;
  outbox: Outbox;
}

export function connectionRoutes({ sources, outbox }: ConnectionOptions): Pick<HostRoutes, ConnectionCall> {
  return {
    'GET /apps/:id/connection': ({ words }) => sources.get(words[0]!),
    'PUT /apps/:id/connection': async ({ request, words }) =>
      sources.connect(words[0]!, await readJson<'PUT /apps/:id/connection'>(request)),
    'DELETE /apps/:id/connection': async ({ words }) => {
      sources.get(words[0]!);
      await sources.disconnect(words[0]!);
      return null;
    },
    'POST /apps/:id/connection/sync': async ({ request, response, words }) => {
      const { ref } = await readJson<'POST /apps/:id/connection/sync'>(request);
      const synced = await sources.sync(words[0]!, ref, clientLeft(response));
      // So that the next list of deploys contains this one.
      if (synced.deploy_id !== null) await outbox.flushed(FLUSH_MS);
      return synced;
    },
    'POST /apps/:id/connection/approve': async ({ request, words }) => {
      const { number, sha } = await readJson<'POST /apps/:id/connection/approve'>(request);
      return sources.approve(words[0]!, number, sha);
    },
    'GET /apps/:id/connection/key': ({ words }) => ({ secret: sources.webhookKey(words[0]!) }),
    'POST /apps/:id/connection/deliveries': async ({ request, words }) => {
      const { deliveries } = await readJson<'POST /apps/:id/connection/deliveries'>(request);
      return { results: sources.delivered(words[0]!, deliveries) };
    },
  };
}
