// `POST /internal/hosts/report`: each host sends its state every two seconds. The response has all hosts and the routes of
// apps.
import { type Routes, readRoutes } from '../../sqlite/control/hosts.ts';
import { unwrap } from '../app/outcome.ts';
import type { RequestContext } from '../context.ts';
import type { HostReport, HostReportAnswer } from '../contract/host/hosts.ts';
import { HOST_CALL_BYTES } from '../contract/sizes.ts';
import { Problem } from '../problem.ts';
import { readHostJson } from '../transports/body.ts';
import { hostsOf } from './every-host.ts';

/**
 * How long a report waits for the routes, in ms. After the loss of the host that had the database, a query may take 20 s.
 */
const ROUTES_MS = 2_000;

/** After this time, in ms, the routes are read again for a host even if the previous read has not ended. */
const READ_MS = 30_000;

/** By host: when the running read of routes for the host began, in ms since 1970. Prevents concurrent reads for one host. */
const reading = new Map<string, number>();

/**
 * Takes a host's report, and answers with all hosts and routes.
 * @throws {Problem} `host_incompatible`; `host_unavailable` when a host that has no routes cannot get them
 */
export async function hostReport(request: Request, context: RequestContext): Promise<Response> {
  const report = (await readHostJson(request, HOST_CALL_BYTES)) as HostReport;
  const hosts = unwrap(await hostsOf(context.env).report(report));
  // Reads the routes last, because the report may have moved apps.
  const answer: HostReportAnswer = { hosts, ...(await routesFor(report, context)) };
  return Response.json(answer);
}

async function routesFor(
  { id, revision, leaves }: HostReport,
  { db, waitUntil }: RequestContext,
): Promise<Routes> {
  // An answer without changes, for when the routes cannot be read in time. The host keeps the routes that it has.
  const known = { revision, whole: false, routes: [], deleted: [] };
  const since = reading.get(id);
  // The routes are always read for a host that is shutting down: its apps have just moved, and it needs their new homes.
  if (!leaves && since !== undefined && Math.abs(Date.now() - since) < READ_MS) {
    if (revision > 0) return known;
    throw new Problem(
      'host_unavailable',
      'Another request is reading the routes of all apps; try again in a moment.',
    );
  }
  const startedAt = Date.now();
  reading.set(id, startedAt);
  const routes = readRoutes(db, revision).finally(() => {
    if (reading.get(id) === startedAt) reading.delete(id);
  });
  waitUntil(routes.catch(() => {}));
  return revision === 0 ? routes : Promise.race([routes.catch(() => known), later(known)]);
}

async function later<Value>(value: Value): Promise<Value> {
  await scheduler.wait(ROUTES_MS);
  return value;
}
