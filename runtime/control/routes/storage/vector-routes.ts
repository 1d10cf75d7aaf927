// The handlers' calls about the vector indexes of apps.
import type { HostCall } from '../../../../handlers/contract/host/host-routes.ts';
import { vectorReads, vectorWrites } from '../../../../handlers/contract/storage/vectors.ts';
import type { Apps } from '../../../apps/apps.ts';
import { reason } from '../../../log.ts';
import { noSuchApp, Refusal } from '../../../refusal.ts';
import { find, type Stored } from '../../../storage/places.ts';
import type { Buckets } from '../../../storage/r2/buckets.ts';
import type { StorageQueries } from '../../../storage/storage-queries.ts';
import { callIndex, type IndexPlace, type IndexSettings } from '../../../vectors/client.ts';
import type { Call, HostRoutes } from '../../host-call.ts';

export type VectorCall = Extract<HostCall, `${string}/vectors${string}`>;

export interface VectorOptions {
  storageQueries: StorageQueries;
  apps: Apps;
  buckets: Buckets;
}

/** Returns the routes. Responses of the vector service to reads and writes are forwarded unchanged. */
export function vectorRoutes(options: VectorOptions): Pick<HostRoutes, VectorCall> {
  const { storageQueries, apps } = options;
  return {
    'GET /apps/:id/vectors': async ({ words }) => {
      const [appId] = words as [string];
      const known = (await storageQueries.places(appId)).vectorIndexes;
      const described: ({ index: string; binding: string | null } & IndexSettings)[] = [];
      // One after another: an app's concurrent calls are limited. The number of its indexes, with former ones, is not.
      for (const stored of known) {
        const text = await callIndex(await placeOf(options, appId, stored), 'settings', null);
        described.push({
          index: stored.id,
          binding: stored.binding,
          ...(JSON.parse(text) as IndexSettings),
        });
      }
      return described;
    },
    'POST /apps/:id/vectors/read': (call) => passed(options, call, vectorReads),
    'POST /apps/:id/vectors/write': async (call) => {
      const app = apps.get(apps.originOf(call.words[0]!));
      if (!app) throw noSuchApp();
      // Counts as a change of the app, so a move of the app waits until it has ended.
      return app.changes.during(() => passed(options, call, vectorWrites));
    },
  };
}

/** Forwards the vector service's response to an operation. @throws {Refusal} for an unknown app, index or operation */
async function passed(
  options: VectorOptions,
  { words, query, request, response }: Call,
  operations: readonly string[],
): Promise<void> {
  const [appId] = words as [string];
  if (!options.apps.get(appId)) throw noSuchApp();
  const index = query.get('index') ?? '';
  const found = find((await options.storageQueries.places(appId)).vectorIndexes, index);
  if (found === undefined)
    throw new Refusal(404, 'storage_not_found', `the app has no vector index ${index}`);
  const operation = query.get('call') ?? '';
  if (!operations.includes(operation))
    throw new Refusal(400, 'invalid_input', `there is no operation ${operation}`);
  const place = await placeOf(options, appId, found);
  const text = await callIndex(place, operation, request, request.headers['content-type']);
  response.writeHead(200, { 'content-type': 'application/json' }).end(text);
}

/** Returns where the vector service serves an index. @throws {Refusal} 503 when the service cannot be opened */
async function placeOf(
  { buckets, apps }: VectorOptions,
  appId: string,
  { storageId }: Stored,
): Promise<IndexPlace> {
  const countsFor = { family: apps.originOf(appId), owner: apps.ownerOf(appId) };
  const socket = await buckets.openVectors(appId, countsFor).catch((error: unknown) => {
    throw new Refusal(503, 'host_unavailable', reason(error));
  });
  return { socket, storageId };
}
