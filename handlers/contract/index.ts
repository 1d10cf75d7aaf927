// The contract: every operation, with its REST route and RPC method. `other-routes.ts` describes routes that are not
// operations.
import type * as z from 'zod';
import { admin } from './admin.ts';
import { apps } from './apps/apps.ts';
import { builds } from './apps/builds.ts';
import { crons } from './apps/crons.ts';
import { deploys, git } from './apps/deploys.ts';
import { domains } from './apps/domains.ts';
import { env } from './apps/env.ts';
import { limits } from './apps/limits.ts';
import { moves } from './apps/move.ts';
import { previews } from './apps/previews.ts';
import { secrets, vars } from './apps/secrets.ts';
import { source } from './apps/source.ts';
import { versions } from './apps/versions.ts';
import { dispatch } from './dispatch.ts';
import { hosts } from './hosts.ts';
import { mailRoutes } from './incoming/mail-routes.ts';
import { tcpPorts } from './incoming/tcp-ports.ts';
import type { Operation } from './operation.ts';
import { accounts, collaborators, keys } from './people/accounts.ts';
import { audit } from './people/audit.ts';
import { invites } from './people/invites.ts';
import { connections } from './source/connections.ts';
import { folders } from './source/folder.ts';
import { bindings } from './storage/bindings.ts';
import { buckets } from './storage/buckets.ts';
import { storage } from './storage/storage.ts';
import { vectors } from './storage/vectors.ts';
import { workflows } from './storage/workflows.ts';
import { alerts } from './telemetry/alerts.ts';
import { events, insights, users } from './telemetry/events.ts';
import { groupedErrors } from './telemetry/grouped-errors.ts';
import { logs } from './telemetry/logs.ts';
import { metrics } from './telemetry/metrics.ts';
import { requests } from './telemetry/requests.ts';

export const operations = [
  ...apps,
  ...moves,
  ...dispatch,
  ...deploys,
  ...folders,
  ...previews,
  ...versions,
  ...git,
  ...env,
  ...secrets,
  ...vars,
  ...domains,
  ...mailRoutes,
  ...tcpPorts,
  ...source,
  ...connections,
  ...bindings,
  ...storage,
  ...buckets,
  ...vectors,
  ...metrics,
  ...requests,
  ...logs,
  ...groupedErrors,
  ...crons,
  ...workflows,
  ...events,
  ...users,
  ...insights,
  ...limits,
  ...builds,
  ...alerts,
  ...admin,
  ...hosts,
  ...accounts,
  ...keys,
  ...collaborators,
  ...invites,
  ...audit,
] as const;

type Declared = (typeof operations)[number];
export type OperationName = Declared['name'];
/** The declaration of an operation, by name. */
export type Named<Name extends OperationName> = Extract<Declared, { name: Name }>;
/** The input of an operation; fields with defaults may be left out. */
export type Params<Name extends OperationName> = z.input<Named<Name>['input']>;
export type Result<Name extends OperationName> = z.output<Named<Name>['output']>;

/** Operations by RPC name. */
export const operationsByName: ReadonlyMap<string, Operation> = new Map(
  operations.map((operation) => [operation.name, operation]),
);
