// `POST /internal/hosts/report`: what a host tells the others every two seconds, and what it learns of them.
import { readRoutes } from '../../sqlite/control/hosts.ts';
import { unwrap } from '../app/outcome.ts';
import type { RequestContext } from '../context.ts';
import type { HostReport, HostReportAnswer } from '../contract/host/hosts.ts';
import { HOST_CALL_BYTES } from '../contract/sizes.ts';
import { readHostJson } from '../transports/body.ts';
import { hostsOf } from './every-host.ts';

/** @throws {Problem} `host_incompatible` */
export async function hostReport(request: Request, { env, db }: RequestContext): Promise<Response> {
  const report = (await readHostJson(request, HOST_CALL_BYTES)) as HostReport;
  const hosts = unwrap(await hostsOf(env).report(report));
  // Read last: the report may have moved apps.
  const answer: HostReportAnswer = { hosts, ...(await readRoutes(db, report.revision)) };
  return Response.json(answer);
}
