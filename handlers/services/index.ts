// The implementations of all operations, by name.
import type { OperationName } from '../contract/index.ts';
import { adminServices } from './admin.ts';
import { appServices } from './apps/apps.ts';
import { connectionServices } from './apps/connections.ts';
import { cronServices } from './apps/crons.ts';
import { deletedAppServices } from './apps/deleted.ts';
import { deployServices } from './apps/deploys.ts';
import { dispatchServices } from './apps/dispatch.ts';
import { domainServices } from './apps/domains.ts';
import { folderServices } from './apps/folders.ts';
import { mailRouteServices } from './apps/mail-routes.ts';
import { previewServices } from './apps/previews.ts';
import { secretServices } from './apps/secrets.ts';
import { settingServices } from './apps/settings.ts';
import { sourceServices } from './apps/source.ts';
import { varServices } from './apps/vars.ts';
import { versionServices } from './apps/versions.ts';
import { hostServices } from './hosts.ts';
import { accountServices } from './people/accounts.ts';
import { auditServices } from './people/audit.ts';
import { inviteServices } from './people/invites.ts';
import { bindingServices } from './storage/bindings.ts';
import { bucketServices } from './storage/buckets.ts';
import { storageServices } from './storage/storage.ts';
import { vectorServices } from './storage/vectors.ts';
import { workflowServices } from './storage/workflows.ts';
import { tcpPortServices } from './tcp-ports.ts';
import { alertServices } from './telemetry/alerts.ts';
import { errorServices } from './telemetry/errors.ts';
import { eventServices } from './telemetry/events.ts';
import { logServices } from './telemetry/logs.ts';
import { metricServices } from './telemetry/metrics.ts';
import { streamServices } from './telemetry/streams.ts';
import type { Service } from './types.ts';

/** Implementations that do not check that their app exists. `invoke` checks it for them. */
export const servicesOfHost = {
  ...alertServices,
  ...bindingServices,
  ...bucketServices,
  ...vectorServices,
  ...connectionServices,
  ...cronServices,
  ...errorServices,
  ...folderServices,
  ...logServices,
  ...metricServices,
  ...secretServices,
  ...varServices,
  ...sourceServices,
  ...storageServices,
  ...streamServices,
  ...workflowServices,
};

export const services = {
  ...servicesOfHost,
  ...appServices,
  ...deletedAppServices,
  ...dispatchServices,
  ...deployServices,
  ...previewServices,
  ...versionServices,
  ...settingServices,
  ...domainServices,
  ...mailRouteServices,
  ...tcpPortServices,
  ...eventServices,
  ...accountServices,
  ...adminServices,
  ...hostServices,
  ...inviteServices,
  ...auditServices,
} satisfies { [Name in OperationName]: Service<Name> };
