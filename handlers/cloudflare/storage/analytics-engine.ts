// SQL over the data points that the apps of an account wrote by bindings of Analytics Engine. Apps with the same dataset are one
// table.
import { type AppRow, listApps } from '../../../sqlite/control/apps/apps.ts';
import { onlyAppOf } from '../../access.ts';
import { operationsByName } from '../../contract/index.ts';
import type { Operation } from '../../contract/operation.ts';
import { Problem } from '../../problem.ts';
import { readBytes } from '../../transports/body.ts';
import { type Call, type CallContext, call } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';

const PATH = '/accounts/:account/analytics_engine/sql';
/** Longest query, in bytes. */
const QUERY_BYTES = 64 * 1024;
const PAGE = 200;

/** Any account may query its own points, by a key with the scope `read`; a key for one app reads those of that app. */
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
  const homes = Map.groupBy(apps, ({ home }) => home ?? undefined);
  const answers: Response[] = [];
  for (const [home, own] of homes.size === 0 ? [[undefined, []] as const] : homes) {
    const answer = await asked(context, home, own, sql);
    if (answer !== null) answers.push(answer);
  }
  const [answer, ...others] = answers;
  if (answer === undefined)
    throw new CloudflareError(
      404,
      CODES.QUERY_FAILED,
      'No app of this account has written a data point to this dataset; SHOW TABLES lists the datasets.',
    );
  if (others.length === 0) return answer;
  for (const each of answers) await each.body?.cancel();
  throw new CloudflareError(
    409,
    CODES.QUERY_FAILED,
    'Apps on several hosts have written to this dataset: move them to one host by `cellar move --host`, or query with a key for one app.',
  );
}

/** Asks one host. @returns null when its apps have no such points */
async function asked(
  { host, account }: CallContext,
  home: string | undefined,
  apps: readonly AppRow[],
  sql: string,
): Promise<Response | null> {
  const body = { app_ids: apps.map(({ id }) => id), owner: account, sql };
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

/** The account's own apps that the caller's key is for. Previews and apps of others are left out. */
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
