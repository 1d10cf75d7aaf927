// Every implementation, by operation.
import type { OperationName } from '../contract/index.ts';
import type { notYet } from '../contract/not-yet.ts';
import { accountServices } from './accounts.ts';
import { adminServices } from './admin.ts';
import { alertServices } from './alerts.ts';
import { appServices } from './apps.ts';
import { bucketServices } from './buckets.ts';
import { cronServices } from './crons.ts';
import { deployServices } from './deploys.ts';
import { domainServices } from './domains.ts';
import { errorServices } from './errors.ts';
import { eventServices } from './events.ts';
import { inviteServices } from './invites.ts';
import { logServices } from './logs.ts';
import { metricServices } from './metrics.ts';
import { previewServices } from './previews.ts';
import { secretServices } from './secrets.ts';
import { settingServices } from './settings.ts';
import { sourceServices } from './source.ts';
import { storageServices } from './storage.ts';
import type { Service } from './types.ts';
import { workflowServices } from './workflows.ts';

type NotYet = (typeof notYet)[number];
type Built = Exclude<OperationName, NotYet>;

export const services = {
  ...appServices,
  ...deployServices,
  ...previewServices,
  ...settingServices,
  ...domainServices,
  ...alertServices,
  ...secretServices,
  ...sourceServices,
  ...storageServices,
  ...eventServices,
  ...accountServices,
  ...adminServices,
  ...logServices,
  ...metricServices,
  ...bucketServices,
  ...errorServices,
  ...cronServices,
  ...workflowServices,
  ...inviteServices,
} satisfies { [Name in Built]: Service<Name> } & { [Name in NotYet]?: never };
