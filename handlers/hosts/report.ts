// `POST /internal/hosts/report`: each host sends its state every two seconds, and gets the other hosts and the routes.
import { readRoutes } from '../../sqlite/control/hosts.ts';
import { unwrap } from '../app/outcome.ts';
import type { RequestContext } from '../context.ts';
import type { HostReport, HostReportAnswer } from '../contract/host/hosts.ts';
import { HOST_CALL_BYTES } from '../contract/sizes.ts';
import { readHostJson } from '../transports/body.ts';
import { hostsOf } from './every-host.ts';

/** How long the database may take, in ms. After the loss of the host that had it, that may be 20 s. */
const ROUTES_MS = 2_000;

/** @throws {Problem} `host_incompatible` */
export async function hostReport(request: Request, { env, db }: RequestContext): Promise<Response> {
  const report = (await readHostJson(request, HOST_CALL_BYTES)) as HostReport;
  const hosts = unwrap(await hostsOf(env).report(report));
  // Read last: the report may have moved apps.
  const routes = readRoutes(db, report.revision);
  // The object has the report: a host that knows routes is not cut off because it gets no newer ones now.
  const known = { revision: report.revision, whole: false, routes: [], deleted: [] };
  const read = report.revision === 0 ? routes : Promise.race([routes.catch(() => known), later(known)]);
  const answer: HostReportAnswer = { hosts, ...(await read) };
  return Response.json(answer);
}

async function later<Value>(value: Value): Promise<Value> {
  await scheduler.wait(ROUTES_MS);
  return value;
}
