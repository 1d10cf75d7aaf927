// The handlers' calls about the storage of apps.
import type { ServerResponse } from 'node:http';
import { errorCodes } from '../../../../handlers/contract/errors.ts';
import type { HostCall } from '../../../../handlers/contract/host/host-routes.ts';
import type { KvWrite } from '../../../../handlers/contract/host/host-storage.ts';
import { D1_QUERY_BYTES, D1_SQL_BYTES } from '../../../../handlers/contract/sizes.ts';
import type { Apps } from '../../../apps/apps.ts';
import { noSuchApp, Refusal } from '../../../refusal.ts';
import { clientLeft } from '../../../sockets/client-left.ts';
import { ReadingRefused } from '../../../storage/reading.ts';
import type { StorageQueries, StorageReader } from '../../../storage/storage-queries.ts';
import { type DatabaseRequest, runSql, writeValue } from '../../../storage/writing.ts';
import { type Call, type HostRoutes, readBody, readJson } from '../../host-call.ts';

export type StorageCall = Extract<HostCall, `${string}/storage${string}`>;

/** Returns the routes. Responses of readers (processes that read an app's storage) are forwarded unchanged. */
export function storageRoutes({
  apps,
  storageQueries,
}: {
  apps: Apps;
  storageQueries: StorageQueries;
}): Pick<HostRoutes, StorageCall> {
  const writing = { apps, storageQueries };
  const answer = readingAnswer(apps);
  const sql = (kind: DatabaseRequest['kind'], limitBytes: number) =>
    answer(({ appId, signal }, { request, query }) => {
      const body = () => readBody(request, limitBytes);
      return runSql(writing, appId, {
        database: query.get('database') ?? '',
        kind,
        body,
        signal,
      });
    });
  const keys = answer(async (looker, { request }) =>
    storageQueries.keys(looker, await readJson<'POST /apps/:id/storage/kv'>(request)),
  );
  return {
    'GET /apps/:id/storage': answer((looker) => storageQueries.overview(looker)),
    'PUT /apps/:id/storage/kv/value': async ({ request, response, words, query }) => {
      const asked = JSON.parse(query.get('write')!) as KvWrite;
      const value = { size: Number(request.headers['content-length']), bytes: request };
      const left = clientLeft(response);
      await writeValue(writing, words[0]!, asked, value, left).catch(refuseReading);
      return null;
    },
    'POST /apps/:id/storage/kv/delete': async ({ request, response, words }) => {
      const asked = await readJson<'POST /apps/:id/storage/kv/delete'>(request);
      await writeValue(writing, words[0]!, asked, null, clientLeft(response)).catch(refuseReading);
      return null;
    },
    'POST /apps/:id/storage/export': answer(async (looker, { request }) =>
      storageQueries.exportDatabase(looker, await readJson<'POST /apps/:id/storage/export'>(request)),
    ),
    'POST /apps/:id/storage/query': sql('query', D1_QUERY_BYTES),
    'POST /apps/:id/storage/import': sql('import', D1_SQL_BYTES),
    'POST /apps/:id/storage/d1': answer(async (looker, { request }) =>
      storageQueries.database(looker, await readJson<'POST /apps/:id/storage/d1'>(request)),
    ),
    'POST /apps/:id/storage/do': answer(async (looker, { request }) =>
      storageQueries.objects(looker, await readJson<'POST /apps/:id/storage/do'>(request)),
    ),
    'POST /apps/:id/storage/kv': keys,
    'POST /apps/:id/storage/kv/get': keys,
  };
}

/** Returns a function that makes routes. Such a route forwards the response of a reader unchanged. */
export function readingAnswer(apps: Apps) {
  return (ask: (looker: StorageReader, call: Call) => Promise<Buffer>) => async (call: Call) => {
    const [appId] = call.words as [string];
    if (!apps.get(appId)) throw noSuchApp();
    const signal = clientLeft(call.response);
    try {
      send(call.response, await ask({ appId, signal }, call));
    } catch (error) {
      if (!signal.aborted) refuseReading(error);
    }
  };
}

/** Throws a reader's refusal as a `Refusal`, and other errors unchanged. */
export function refuseReading(error: unknown): never {
  if (!(error instanceof ReadingRefused)) throw error;
  throw new Refusal(errorCodes[error.code].status, error.code, error.message);
}

function send(response: ServerResponse, json: Buffer): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(json);
}
