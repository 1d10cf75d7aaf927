// Rules for each call to the host: its deadline, and the errors whose text is passed on to the caller.
import { DOMAIN_LOOKUP_MS } from '../contract/apps/domains.ts';
import type { ErrorCode } from '../contract/errors.ts';
import {
  CALL_DEADLINE_MS,
  KV_VALUE_MS,
  OBJECT_DEADLINE_MS,
  READ_DEADLINE_MS,
  SNAPSHOT_DEADLINE_MS,
  SNAPSHOT_LIST_DEADLINE_MS,
  SOURCE_DEADLINE_MS,
  UPLOAD_DEADLINE_MS,
} from '../contract/host/deadlines.ts';
import type { HostCall, TelemetryAnswers } from '../contract/host/host-routes.ts';

export interface CallRule {
  /**
   * Timeout for the whole answer, in ms. `start`: long enough to start or end a process of an app. Default: `CALL_DEADLINE_MS`.
   */
  deadlineMs?: number | 'start';
  /**
   * Error codes of the host that are passed on to the caller, besides `insufficient_storage`. Most other codes become
   * `host_unavailable`.
   */
  refusals?: readonly ErrorCode[];
  /** Whether a call that failed with a 5xx may have changed something, so that it must not be repeated. */
  changes?: true;
  /** Whether the answer is an endless stream: the deadline is for its head. */
  endless?: true;
}

/** Timeout in ms, longer than the host's own timeouts for the mail server and for webhooks. */
const DELIVERY_DEADLINE_MS = 15_000;
/** Timeout for a whole push or clone. The host ends a stalled transfer much earlier. */
const GIT: CallRule = { deadlineMs: 3_600_000 };
/** Timeout in ms for making a copy of an app's storage, and reading its last byte. */
const COPY_DEADLINE_MS = 40 * 60_000;

const STORAGE: CallRule = {
  refusals: [
    'host_unavailable',
    'storage_not_found',
    'invalid_input',
    'query_failed',
    'query_timeout',
    'answer_too_large',
    'storage_unreadable',
    'workflow_not_found',
    'workflow_instance_not_found',
  ],
  deadlineMs: READ_DEADLINE_MS,
};
const STORAGE_WRITE: CallRule = {
  refusals: ['storage_not_found', 'query_failed', 'app_unavailable', 'host_unavailable'],
  deadlineMs: READ_DEADLINE_MS,
  changes: true,
};
const OBJECT: CallRule = {
  refusals: [
    'host_unavailable',
    'storage_not_found',
    'transition_conflict',
    'quota_exceeded',
    'invalid_input',
    'bad_request',
    'request_timeout',
  ],
};
const OBJECT_WRITE: CallRule = { ...OBJECT, changes: true };
const VECTORS: CallRule = {
  refusals: [
    'app_not_found',
    'host_unavailable',
    'storage_not_found',
    'quota_exceeded',
    'insufficient_storage',
    'invalid_input',
    'bad_request',
  ],
  deadlineMs: READ_DEADLINE_MS,
};
const SOURCE: CallRule = {
  refusals: ['ref_not_found', 'path_not_found', 'invalid_input', 'host_unavailable'],
  deadlineMs: SOURCE_DEADLINE_MS,
};
const SOURCE_WRITE: CallRule = { deadlineMs: SOURCE_DEADLINE_MS, changes: true };
const CONNECTION: CallRule = { refusals: ['app_not_found', 'source_not_connected'] };
const UPLOAD: CallRule = {
  refusals: ['invalid_input', 'bad_request', 'body_too_large', 'rate_limited', 'app_not_found'],
  deadlineMs: UPLOAD_DEADLINE_MS,
};
const FOLDER: CallRule = {
  ...UPLOAD,
  refusals: [...UPLOAD.refusals!, 'insufficient_storage', 'host_unavailable'],
};
const SNAPSHOT: CallRule = {
  refusals: ['snapshot_unusable', 'snapshot_failed'],
  deadlineMs: SNAPSHOT_DEADLINE_MS,
};
const ALERT: CallRule = { refusals: ['alert_not_found'] };
const TELEMETRY: CallRule = { refusals: ['error_not_found', 'preview_not_found'] };
const STREAM: CallRule = { refusals: ['rate_limited', 'preview_not_found'], endless: true };

const telemetryRules = (names: (keyof TelemetryAnswers)[]) =>
  Object.fromEntries(names.map((name) => [`POST /apps/:id/telemetry/${name}`, TELEMETRY]));

/** The rules by call. A call without a rule has the default deadline and no `refusals`. */
export const callRules: Partial<Record<HostCall, CallRule>> = {
  ...telemetryRules(['logs', 'errors', 'errors/get']),
  'POST /apps/:id/telemetry/logs/stream': STREAM,
  'POST /apps/:id/telemetry/errors/stream': STREAM,
  'GET /apps/:id/telemetry/requests/stream': STREAM,
  'PUT /apps/:id/telemetry/errors/status': TELEMETRY,
  'PUT /apps/:id': { refusals: ['app_not_found'], deadlineMs: 'start' },
  'POST /apps/:id/start': { refusals: ['transition_conflict'], deadlineMs: 'start' },
  'POST /apps/:id/move': {
    refusals: [
      'app_not_found',
      'invalid_input',
      'transition_conflict',
      'app_immovable',
      'move_failed',
      'insufficient_storage',
    ],
    deadlineMs: SNAPSHOT_DEADLINE_MS,
    changes: true,
  },
  'POST /apps/:id/prepare': {
    refusals: ['app_not_found', 'app_immovable', 'release_unavailable', 'host_unavailable'],
    deadlineMs: 'start',
  },
  'POST /apps/:id/hand-over': {
    refusals: ['transition_conflict', 'app_immovable'],
    deadlineMs: 'start',
  },
  'POST /apps/:id/sleep': { refusals: ['transition_conflict'], deadlineMs: 'start' },
  'DELETE /apps/:id': { deadlineMs: 'start' },
  'POST /apps/:id/rollback': { refusals: ['deploy_not_found', 'release_unavailable'], changes: true },
  'POST /apps/:id/deploys': {
    ...SOURCE_WRITE,
    refusals: [
      'deploy_not_found',
      'ref_not_found',
      'invalid_input',
      'import_failed',
      'commit_conflict',
      'rate_limited',
      'host_unavailable',
    ],
  },
  'POST /apps/:id/deploys/:deploy/cancel': {
    refusals: ['deploy_not_found', 'transition_conflict'],
    changes: true,
  },
  'PUT /apps/:id/triggers': { ...SOURCE_WRITE, refusals: ['release_unavailable'] },
  'GET /apps/:id/source/tree': SOURCE,
  'GET /apps/:id/source/entry': SOURCE,
  'GET /apps/:id/source/blob/:sha': SOURCE,
  'GET /apps/:id/source/diff': SOURCE,
  'POST /apps/:id/source/commit': {
    ...SOURCE_WRITE,
    refusals: ['commit_conflict', 'path_not_found', 'invalid_input', 'host_unavailable'],
  },
  'POST /apps/:id/source/import': {
    ...SOURCE_WRITE,
    refusals: ['commit_conflict', 'import_failed', 'rate_limited', 'host_unavailable'],
  },
  'POST /apps/:id/source/template': { ...SOURCE_WRITE, refusals: ['commit_conflict', 'host_unavailable'] },
  'GET /apps/:id/connection': CONNECTION,
  'PUT /apps/:id/connection': { ...CONNECTION, changes: true },
  'DELETE /apps/:id/connection': { ...CONNECTION, changes: true },
  'GET /apps/:id/connection/key': CONNECTION,
  'POST /apps/:id/connection/deliveries': CONNECTION,
  'POST /apps/:id/connection/approve': {
    refusals: ['source_not_connected', 'pull_request_not_found', 'commit_conflict'],
    changes: true,
  },
  'POST /apps/:id/connection/sync': {
    ...SOURCE_WRITE,
    refusals: [
      'source_not_connected',
      'commit_conflict',
      'import_failed',
      'rate_limited',
      'host_unavailable',
    ],
  },
  'POST /apps/:id/crons/run': {
    refusals: ['cron_not_found', 'transition_conflict', 'app_unavailable'],
    deadlineMs: READ_DEADLINE_MS,
    changes: true,
  },
  'GET /apps/:id/workflows': STORAGE,
  'POST /apps/:id/workflows/instances': STORAGE,
  'POST /apps/:id/workflows/instance': STORAGE,
  'POST /apps/:id/workflows/act': {
    refusals: [
      'workflow_not_found',
      'workflow_instance_not_found',
      'workflow_conflict',
      'invalid_input',
      'app_unavailable',
    ],
    deadlineMs: READ_DEADLINE_MS,
    changes: true,
  },
  'GET /apps/:id/copy': { refusals: ['app_not_found', 'rate_limited'], deadlineMs: COPY_DEADLINE_MS },
  'GET /apps/:id/vectors': VECTORS,
  'POST /apps/:id/vectors/read': VECTORS,
  'POST /apps/:id/vectors/write': { ...VECTORS, changes: true },
  'GET /apps/:id/buckets': OBJECT,
  'GET /apps/:id/r2/list': OBJECT,
  'GET /apps/:id/r2/head': OBJECT,
  'GET /apps/:id/r2/bytes': { ...OBJECT, deadlineMs: OBJECT_DEADLINE_MS },
  'PUT /apps/:id/r2/object': { ...OBJECT_WRITE, deadlineMs: OBJECT_DEADLINE_MS },
  'PUT /apps/:id/r2/part': { ...OBJECT_WRITE, deadlineMs: SOURCE_DEADLINE_MS },
  'POST /apps/:id/r2/uploads': OBJECT_WRITE,
  'POST /apps/:id/r2/complete': { ...OBJECT_WRITE, deadlineMs: READ_DEADLINE_MS },
  'DELETE /apps/:id/r2/upload': OBJECT_WRITE,
  'DELETE /apps/:id/r2/object': OBJECT_WRITE,
  'POST /apps/:id/alerts': { refusals: ['quota_exceeded'] },
  'PUT /apps/:id/alerts/:alert': ALERT,
  'DELETE /apps/:id/alerts/:alert': ALERT,
  'POST /apps/:id/alerts/:alert/test': {
    refusals: ['alert_not_found', 'rate_limited'],
    deadlineMs: DELIVERY_DEADLINE_MS,
  },
  'GET /snapshots': { ...SNAPSHOT, deadlineMs: SNAPSHOT_LIST_DEADLINE_MS },
  'POST /snapshots': SNAPSHOT,
  'POST /snapshots/verify': SNAPSHOT,
  'POST /snapshots/restore': {
    refusals: [
      'app_not_found',
      'snapshot_not_found',
      'snapshot_unusable',
      'snapshot_failed',
      'transition_conflict',
    ],
    deadlineMs: SNAPSHOT_DEADLINE_MS,
    changes: true,
  },
  'POST /apps/:id/renew': { deadlineMs: 'start' },
  'POST /client-certificates': { refusals: ['invalid_input'] },
  'POST /store-secrets': {},
  'POST /datapoints/query': {
    refusals: ['storage_not_found', 'query_failed', 'dataset_spread', 'query_timeout', 'rate_limited'],
    deadlineMs: READ_DEADLINE_MS,
  },
  'PATCH /apps/:id/secrets': {
    refusals: ['quota_exceeded', 'invalid_input'],
    deadlineMs: 'start',
    changes: true,
  },
  'GET /apps/:id/storage': STORAGE,
  'POST /apps/:id/storage/d1': STORAGE,
  'POST /apps/:id/storage/export': STORAGE,
  'POST /apps/:id/storage/do': STORAGE,
  'POST /apps/:id/storage/kv': STORAGE,
  'POST /apps/:id/storage/kv/get': STORAGE,
  'PUT /apps/:id/storage/kv/value': { ...STORAGE_WRITE, deadlineMs: KV_VALUE_MS + CALL_DEADLINE_MS },
  'POST /apps/:id/storage/kv/delete': STORAGE_WRITE,
  'POST /apps/:id/storage/query': STORAGE_WRITE,
  'POST /apps/:id/storage/import': STORAGE_WRITE,
  'GET /apps/:id/domain': { refusals: ['app_not_found', 'rate_limited'], deadlineMs: 3 * DOMAIN_LOOKUP_MS },
  'GET /git/:id/:refs': GIT,
  'POST /git/:id/:service': GIT,
  'POST /mail': { deadlineMs: DELIVERY_DEADLINE_MS },
  'POST /uploads/assets': UPLOAD,
  'POST /uploads/assets/:session': UPLOAD,
  'POST /uploads/sites': UPLOAD,
  'POST /uploads/versions': UPLOAD,
  'POST /apps/:id/uploads': FOLDER,
  'POST /apps/:id/uploads/:session': FOLDER,
  'POST /apps/:id/uploads/:session/deploy': { ...FOLDER, changes: true },
  'POST /apps/:id/versions/:deploy': { ...SOURCE_WRITE, refusals: ['deploy_not_found'] },
  'POST /apps/:id/versions/:deploy/preview': {
    ...SOURCE_WRITE,
    refusals: ['deploy_not_found', 'invalid_input'],
  },
  'PUT /apps/:id/split': {
    ...SOURCE_WRITE,
    refusals: [
      'app_not_found',
      'deploy_not_found',
      'release_unavailable',
      'transition_conflict',
      'host_unavailable',
    ],
  },
  'DELETE /apps/:id/split': { refusals: ['app_not_found', 'host_unavailable'], changes: true },
  'GET /apps/:id/previews/:preview/log': { refusals: ['preview_not_found', 'deploy_not_found'] },
  'DELETE /apps/:id/previews/:preview': { refusals: ['preview_not_found'], deadlineMs: READ_DEADLINE_MS },
  'POST /apps/:id/previews/:preview/promote': {
    refusals: ['preview_not_found', 'release_unavailable'],
    changes: true,
  },
};
