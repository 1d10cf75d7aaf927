// SQL over the data points that the apps of an account wrote through bindings of Analytics Engine. Each dataset is one
// table, with the data points of all apps that write to it.
import { type AppRow, listApps } from '../../../sqlite/control/apps/apps.ts';
import { onlyAppOf } from '../../access.ts';
import { operationsByName } from '../../contract/index.ts';
import type { Operation } from '../../contract/operation.ts';
import { Problem } from '../../problem.ts';
import { readBytes } from '../../transports/body.ts';
import { type Call, type CallContext, call } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';

const PATH = '/accounts/:account/analytics_engine/sql';
/** Maximum bytes of a query. */
const QUERY_BYTES = 64 * 1024;
const PAGE = 200;

/**
 * A key with the scope `read` may query the data points of its account. A key for one app reads only that app's data points.
 */
const as: Operation = {
  ...operationsByName.get('datapoints.list')!,
  needs: 'account',
  scope: 'read',
  oneApp: true,
};

export const analyticsEngineCalls: Call[] = [
  {
    ...call({
      method: 'POST',
      path: PATH,
      as: 'datapoints.list',
      answer: async (context) =>
        answered(context, new TextDecoder().decode(await readBytes(context.request, QUERY_BYTES))),
    }),
    as,
    needs: 'account',
  },
  {
    ...call({
      method: 'GET',
      path: PATH,
      as: 'datapoints.list',
      answer: async (context) => answered(context, context.url.searchParams.get('query') ?? ''),
    }),
    as,
    needs: 'account',
  },
];

async function answered(context: CallContext, sql: string): Promise<Response> {
  if (sql.trim() === '')
    throw new CloudflareError(400, CODES.QUERY_FAILED, 'The query is empty: send SQL as the body.');
  const apps = await appsOf(context);
  const homes = [...Map.groupBy(apps, ({ home }) => home ?? undefined)];
  if (homes.length === 0) homes.push([undefined, []]);
  const datasets =
    homes.length === 1 ? [[]] : await Promise.all(homes.map(([home, own]) => datasetsOf(context, home, own)));
  for (const [i, [home, own]] of homes.entries()) {
    const answer = await asked(context, home, own, sql, datasets.toSpliced(i, 1).flat());
    if (answer !== null) return answer;
  }
  throw new CloudflareError(
    404,
    CODES.QUERY_FAILED,
    'No app of this account has written a data point to this dataset; SHOW TABLES lists the datasets.',
  );
}

/** Returns the datasets of apps on one host. */
async function datasetsOf(
  context: CallContext,
  home: string | undefined,
  apps: readonly AppRow[],
): Promise<string[]> {
  const answer = await asked(context, home, apps, 'SHOW TABLES');
  if (answer === null) return [];
  const { data } = await answer.json<{ data: { dataset: string }[] }>();
  return data.map(({ dataset }) => dataset);
}

/**
 * Runs the query on one host.
 * @param elsewhere datasets of apps on other hosts
 * @returns null when the host's apps have no such dataset
 * @throws {Problem} `dataset_spread` when apps on other hosts have the dataset too
 */
async function asked(
  { host, account }: CallContext,
  home: string | undefined,
  apps: readonly AppRow[],
  sql: string,
  elsewhere: string[] = [],
): Promise<Response | null> {
  const body = { app_ids: apps.map(({ id }) => id), owner: account, sql, elsewhere };
  try {
    const { headers, body: bytes } = await host.bytes(
      'POST /datapoints/query',
      {},
      { query: { home }, body },
    );
    const contentType = headers.get('content-type') ?? 'application/json';
    return new Response(bytes, { headers: { 'content-type': contentType, 'cache-control': 'no-store' } });
  } catch (error) {
    if (error instanceof Problem && error.code === 'storage_not_found') return null;
    throw error;
  }
}

/** Returns the account's own apps, also scripts of dispatch namespaces; only one app if the caller's key is for one app. */
async function appsOf({ reads, actor, account }: CallContext): Promise<AppRow[]> {
  const only = onlyAppOf(actor);
  const apps: AppRow[] = [];
  for (const namespace of [null, '*']) {
    let before: number | null = null;
    do {
      const filter = { owner: account, home: null, seenBy: null, only, namespace, before, limit: PAGE };
      const { rows, next } = await listApps(reads, filter);
      apps.push(...rows);
      before = next === null ? null : Number(next[0]);
    } while (before !== null);
  }
  return apps;
}
