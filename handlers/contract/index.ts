// The contract: every operation. Nothing else lists routes or methods.
import type * as z from 'zod';
import { accounts, collaborators, keys } from './accounts.ts';
import { admin } from './admin.ts';
import { alerts } from './alerts.ts';
import { apps } from './apps.ts';
import { buckets } from './buckets.ts';
import { builds } from './builds.ts';
import { crons } from './crons.ts';
import { deploys, git } from './deploys.ts';
import { domains } from './domains.ts';
import { env } from './env.ts';
import { events, insights, users } from './events.ts';
import { groupedErrors } from './grouped-errors.ts';
import { invites } from './invites.ts';
import { limits } from './limits.ts';
import { logs } from './logs.ts';
import { metrics } from './metrics.ts';
import type { Operation } from './operation.ts';
import { previews } from './previews.ts';
import { secrets } from './secrets.ts';
import { source } from './source.ts';
import { storage } from './storage.ts';
import { workflows } from './workflows.ts';

export const operations = [
  ...apps,
  ...deploys,
  ...previews,
  ...git,
  ...env,
  ...secrets,
  ...domains,
  ...source,
  ...storage,
  ...buckets,
  ...metrics,
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
  ...accounts,
  ...keys,
  ...collaborators,
  ...invites,
] as const;

type Declared = (typeof operations)[number];
export type OperationName = Declared['name'];
/** The declaration of an operation, by name. */
export type Named<Name extends OperationName> = Extract<Declared, { name: Name }>;
/** What a caller may send: defaults may be left out. */
export type Params<Name extends OperationName> = z.input<Named<Name>['input']>;
/** What an operation answers. */
export type Result<Name extends OperationName> = z.output<Named<Name>['output']>;

/** Operations by RPC name. */
export const operationsByName: ReadonlyMap<string, Operation> = new Map(
  operations.map((operation) => [operation.name, operation]),
);
