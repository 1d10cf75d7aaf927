// Every call of the handlers to the host. The client in `handlers/host` and the routes in `runtime/control` take their types
// from this list. The host imports it too.

import type { HostStats } from '../admin.ts';
import type { AppFigures } from '../apps/apps.ts';
import type { DomainLookup } from '../apps/domains.ts';
import type { MovePlan } from '../apps/move.ts';
import type { Result } from '../index.ts';
import type {
  ConnectionSettings,
  DeliveryOutcome,
  HookDelivery,
  HostConnection,
} from '../source/connections.ts';
import type { Pull } from '../source/pulls.ts';
import type { ThresholdName } from '../telemetry/alert-kinds.ts';
import type { Alert, AlertDelivery } from '../telemetry/alerts.ts';
import type { GroupedError } from '../telemetry/grouped-errors.ts';
import type { LogLine } from '../telemetry/logs.ts';
import type { NewCertificate, ReadCertificate } from './client-certificates.ts';
import type {
  AsOf,
  DeployFact,
  DeployFacts,
  HostPreview,
  HostSplit,
  Mail,
  ObservedApp,
  SecretChanges,
  SecretRecord,
  WantedApp,
} from './host-calls.ts';
import type { DescribedRelease, KeptPlaces, QueueConsumer, UploadedVersion } from './host-releases.ts';
import type {
  DatabaseAnswer,
  DatabaseQuestion,
  ExportQuestion,
  ImportResult,
  InstancesQuestion,
  KeysQuestion,
  KvWrite,
  ObjectQuestion,
  PageOf,
  StatementResult,
  WorkflowAction,
  WorkflowSettings,
} from './host-storage.ts';
import type { ToSeal } from './store-secrets.ts';

/** A body or a response that is passed as raw bytes. Its content has no type here, even if it is JSON. */
export type Bytes = 'bytes';

/** A JSON response that the host passes on from another process, such as the one that reads an app's storage. */
export interface PassedOn<Json> {
  json: Json;
}

/** The apps on the host. */
export interface HostInventory {
  as_of: AsOf;
  highest_generation: number;
  items: ObservedApp[];
}

/** Figures of several apps by id, and the machine's memory in bytes. */
export interface HostOverview {
  memory: { used_bytes: number; limit_bytes: number };
  apps: Record<string, AppFigures>;
}

/** The result of sending a wanted state. */
export interface Applied {
  app: ObservedApp;
  as_of: AsOf;
}

type SourceItem = Result<'source.tree'>['items'][number];

/** A file at a commit. */
export type HostBlob = SourceItem & { size: number; commit: string };

/** The settings of an alert. Fields that are left out do not change. */
export type AlertSettings = Partial<Pick<Alert, 'url' | 'format' | 'on' | ThresholdName>>;

/** Metadata of an object in a bucket. */
export type HostObject = Omit<Result<'storage.r2.get'>, 'content_base64'>;

/** A part of a multipart upload. */
export interface UploadedPart {
  /** The number of the part, from 1. */
  part: number;
  etag: string;
}

/** A page of a list ordered by number of requests, starting at `offset`. */
export interface BreakdownParams {
  appId: string;
  hours: number;
  limit: number;
  offset: number;
}

/** `next` is the position of the next page, such as its offset; null on the last page. */
export interface Ranked<Item> {
  items: Item[];
  next: number | null;
}

type ItemOf<
  Name extends
    | 'devices.list'
    | 'paths.list'
    | 'refs.list'
    | 'countries.list'
    | 'requests.list'
    | 'spans.list'
    | 'datapoints.list',
> = Result<Name> extends { items: (infer Item)[] } ? Item : never;

/** The host's telemetry of an app, by the end of the path below `/apps/:id/telemetry/`. */
export interface TelemetryAnswers {
  metrics: { params: { appId: string; hours: number }; answer: Result<'metrics.get'> };
  'metrics/version': { params: { appId: string }; answer: Result<'metrics.version'> };
  /** Times in ms since 1970. `before` and `next` are line ids: the list continues with older lines. */
  logs: {
    params: {
      appId: string;
      limit: number;
      search?: string | undefined;
      level?: LogLine['level'] | undefined;
      since?: number | undefined;
      until?: number | undefined;
      traceId?: string | undefined;
      before?: number | undefined;
    };
    answer: { items: LogLine[]; next: number | null };
  };
  devices: { params: BreakdownParams; answer: Ranked<ItemOf<'devices.list'>> };
  paths: { params: BreakdownParams; answer: Ranked<ItemOf<'paths.list'>> };
  /** `own`: the app's own hostnames, which the host adds. */
  refs: { params: BreakdownParams & { own?: string[] }; answer: Ranked<ItemOf<'refs.list'>> };
  countries: { params: BreakdownParams; answer: Ranked<ItemOf<'countries.list'>> };
  /** `before`: `next` of the previous answer. */
  spans: {
    params: { appId: string; hours: number; limit: number; before?: number | undefined };
    answer: Ranked<ItemOf<'spans.list'>>;
  };
  /** `before`: `next` of the previous answer. */
  requests: {
    params: {
      appId: string;
      hours: number;
      limit: number;
      before?: number | undefined;
      method?: string | undefined;
      status?: string | undefined;
      path?: string | undefined;
      min_ms?: number | undefined;
      cell_start?: 'warm' | 'cold' | undefined;
    };
    answer: Ranked<ItemOf<'requests.list'>>;
  };
  trace: { params: { appId: string; traceId: string }; answer: Result<'traces.get'> };
  /** `before`: `next` of the previous answer. */
  datapoints: {
    params: {
      appId: string;
      hours: number;
      dataset?: string | undefined;
      index?: string | undefined;
      limit: number;
      before?: number | undefined;
    };
    answer: Ranked<ItemOf<'datapoints.list'>>;
  };
  /** `afterAt` with `afterId`, and `next`, are positions in the list: the time when a group was last seen, and its number. */
  errors: {
    params: {
      appId: string;
      status: GroupedError['status'];
      limit: number;
      afterAt?: number | undefined;
      afterId?: number | undefined;
    };
    answer: { items: GroupedError[]; next: { at: number; id: number } | null };
  };
  'errors/get': { params: { appId: string; fingerprint: string }; answer: Result<'errors.get'> };
}

/**
 * The body of a telemetry call, without the parameters that the host adds. `preview`: asks for this preview, not for the
 * app.
 */
export type TelemetryQuestion<Name extends keyof TelemetryAnswers> = Omit<
  TelemetryAnswers[Name]['params'],
  'appId' | 'own'
> & { preview?: string | undefined };

type TelemetryCalls = {
  [Name in keyof TelemetryAnswers as `POST /apps/:id/telemetry/${Name}`]: {
    body: TelemetryQuestion<Name>;
    answer: TelemetryAnswers[Name]['answer'];
  };
};

/**
 * `after`: the id of the last event that was seen. `rpcMethod`: each event becomes a JSON-RPC notification of this method.
 */
interface StreamQuestion {
  preview?: string | undefined;
  after?: string | undefined;
  rpcMethod?: string | undefined;
}

/**
 * By method and path. `:id` and `:deploy` are ids, `:sha` is a full commit hash, `:refs` and `:service` are git's path
 * segments. `null`: no body; as a response, a 204.
 */
export interface HostCalls extends TelemetryCalls {
  /** `tail`: adds the fields that only Wrangler's tail shows. */
  'POST /apps/:id/telemetry/logs/stream': {
    body: StreamQuestion & { level?: LogLine['level'] | undefined; search?: string | undefined; tail?: true };
    answer: Bytes;
  };
  'POST /apps/:id/telemetry/errors/stream': {
    body: StreamQuestion & { status: GroupedError['status'] };
    answer: Bytes;
  };
  'GET /apps/:id/telemetry/requests/stream': { body: null; answer: Bytes };
  'PUT /apps/:id/telemetry/errors/status': {
    body: { fingerprint: string; status: GroupedError['status'] };
    answer: GroupedError;
  };
  'PUT /apps/:id': { body: WantedApp; answer: Applied };
  /** Loads the app's live release on the host that will be its home. `home` in the query names that host. */
  'POST /apps/:id/prepare': { body: null; answer: null };
  /** Ends the app on its former home, which `home` in the query names. `to` is the id of the new home. */
  'POST /apps/:id/hand-over': { body: { to: string; generation: number }; answer: null };
  'POST /apps/:id/start': { body: null; answer: Applied };
  /** `applied` is null when nothing has moved. */
  'POST /apps/:id/move': {
    body: { to: MovePlan['to']; dry_run: boolean };
    answer: { plan: MovePlan; applied: Applied | null };
  };
  'POST /apps/:id/sleep': { body: null; answer: Applied };
  'DELETE /apps/:id': { body: null; answer: null };
  'GET /apps': { body: null; answer: HostInventory };
  'GET /apps/:id/deploys/:deploy/log': { body: null; answer: { text: string } | null };
  'POST /deploys': { body: { app_id: string; id: string }[]; answer: DeployFacts };
  /** Deploys the commit of the deploy `deploy_id`, or the commit that `ref` names; if both are null, the tip of main. */
  'POST /apps/:id/deploys': {
    body: { deploy_id: string | null; ref: string | null; by: string };
    answer: DeployFact;
  };
  /** `by`: the name of the person who requests it; also in the next call. */
  'POST /apps/:id/deploys/:deploy/cancel': { body: { by: string }; answer: DeployFact };
  'POST /apps/:id/rollback': { body: { deploy_id: string; by: string }; answer: DeployFact };
  'GET /apps/:id/source/tree': {
    body: null;
    answer: { sha: string | null; items: SourceItem[]; more: boolean };
  };
  'GET /apps/:id/source/entry': { body: null; answer: HostBlob };
  'GET /apps/:id/source/blob/:sha': { body: null; answer: Bytes };
  'GET /apps/:id/source/diff': { body: null; answer: Result<'source.diff'> };
  'POST /apps/:id/source/commit': { body: Bytes; answer: Result<'source.commit'> };
  'POST /apps/:id/source/import': { body: { url: string }; answer: Result<'source.import'> };
  'POST /apps/:id/source/template': {
    body: { template: string; author: { name: string; email: string } };
    answer: Result<'source.template'>;
  };
  'GET /apps/:id/connection': { body: null; answer: HostConnection };
  'PUT /apps/:id/connection': { body: ConnectionSettings; answer: HostConnection & { secret: string } };
  'DELETE /apps/:id/connection': { body: null; answer: null };
  /** `ref`: a branch, a tag or a commit; null for the branch or tag that the connection deploys. */
  'POST /apps/:id/connection/sync': { body: { ref: string | null }; answer: Result<'source.sync'> };
  /** The key that signs deliveries of the webhook. */
  'GET /apps/:id/connection/key': { body: null; answer: { secret: string } };
  'POST /apps/:id/connection/deliveries': {
    body: { deliveries: HookDelivery[] };
    answer: { results: DeliveryOutcome[] };
  };
  /** `sha`: the commit that was reviewed. */
  'POST /apps/:id/connection/approve': { body: { number: number; sha: string }; answer: Pull };
  'GET /apps/:id/crons': { body: null; answer: Result<'crons.list'>['items'] };
  'POST /apps/:id/crons/run': { body: { cron: string }; answer: Result<'crons.run'> };
  'GET /apps/:id/workflows': { body: null; answer: PassedOn<Result<'workflows.list'>['items']> };
  'POST /apps/:id/workflows/instances': {
    body: InstancesQuestion;
    answer: PassedOn<PageOf<Result<'workflows.instances.list'>>>;
  };
  'POST /apps/:id/workflows/instance': {
    body: { workflow: string; instance: string };
    answer: PassedOn<Result<'workflows.instances.get'>>;
  };
  /** The answer is `null` when the action deleted the instance. */
  'POST /apps/:id/workflows/act': {
    body: WorkflowAction;
    answer: Result<'workflows.instances.create'> | null;
  };
  /** All storage of the app, in the format of `runtime/storage/copy-stream.ts`. */
  'GET /apps/:id/copy': { body: null; answer: Bytes };
  'GET /apps/:id/r2/list': {
    body: null;
    answer: { items: HostObject[]; next: string | null; prefixes: string[] };
  };
  'GET /apps/:id/r2/head': { body: null; answer: HostObject };
  'GET /apps/:id/r2/bytes': { body: null; answer: Bytes };
  /** The body is the object. Its length must be known in advance. */
  'PUT /apps/:id/r2/object': { body: Bytes; answer: HostObject };
  /** The body is a part of a multipart upload. Its length must be known in advance. */
  'PUT /apps/:id/r2/part': { body: Bytes; answer: UploadedPart };
  'POST /apps/:id/r2/uploads': { body: null; answer: { upload_id: string } };
  'POST /apps/:id/r2/complete': { body: UploadedPart[]; answer: HostObject };
  'DELETE /apps/:id/r2/upload': { body: null; answer: null };
  'DELETE /apps/:id/r2/object': { body: null; answer: null };
  'GET /apps/:id/alerts': { body: null; answer: Alert[] };
  'POST /apps/:id/alerts': { body: AlertSettings & { url: string }; answer: Alert & { secret: string } };
  'PUT /apps/:id/alerts/:alert': { body: AlertSettings; answer: Alert };
  'DELETE /apps/:id/alerts/:alert': { body: null; answer: null };
  'POST /apps/:id/alerts/:alert/test': { body: null; answer: AlertDelivery };
  'GET /snapshots': { body: null; answer: Result<'snapshots.list'>['items'] };
  'POST /snapshots/restore': {
    body: {
      snapshot: { key: string } | { at: string };
      app: string;
      database: string | null;
      dry_run: boolean;
    };
    answer: Result<'admin.restore'>;
  };
  'POST /snapshots/verify': { body: null; answer: Result<'snapshots.verify'> };
  'POST /snapshots': { body: null; answer: Result<'admin.snapshot'> };
  'GET /apps/:id/secrets': { body: null; answer: { items: SecretRecord[] } };
  /** Responds when the app has restarted with its changed variables. */
  'POST /apps/:id/renew': { body: null; answer: { in_effect: boolean; problem: string | null } };
  /** `items`: all secrets after the change. `replaced`: names that existed before. The other fields: as in `secrets.set`. */
  'PATCH /apps/:id/secrets': {
    body: SecretChanges;
    answer: { items: SecretRecord[]; replaced: string[]; in_effect: boolean; problem: string | null };
  };
  /** Checks a client certificate, and encrypts its key. */
  'POST /client-certificates': { body: NewCertificate; answer: ReadCertificate };
  /** Encrypts a value for a Secrets Store. The answer is base64. */
  'POST /store-secrets': { body: ToSeal; answer: { sealed: string } };
  /** The storage of an app, without its buckets and vector indexes. */
  'GET /apps/:id/storage': {
    body: null;
    answer: PassedOn<Omit<Result<'storage.overview'>, 'buckets' | 'vector_indexes'>>;
  };
  'POST /apps/:id/storage/d1': { body: DatabaseQuestion; answer: PassedOn<PageOf<Result<'storage.d1.get'>>> };
  'POST /apps/:id/storage/export': { body: ExportQuestion; answer: PassedOn<Result<'storage.d1.export'>> };
  /** `database` in the query selects the database. The body is `SqlQuery[]`. */
  'POST /apps/:id/storage/query': {
    body: Bytes;
    answer: PassedOn<DatabaseAnswer<StatementResult[][]>>;
  };
  /** `database` in the query selects the database. The body is SQL text. */
  'POST /apps/:id/storage/import': { body: Bytes; answer: PassedOn<DatabaseAnswer<ImportResult>> };
  'POST /apps/:id/storage/do': { body: ObjectQuestion; answer: PassedOn<PageOf<Result<'storage.do.get'>>> };
  'POST /apps/:id/storage/kv': { body: KeysQuestion; answer: PassedOn<PageOf<Result<'storage.kv.list'>>> };
  'POST /apps/:id/storage/kv/get': { body: KeysQuestion; answer: PassedOn<Result<'storage.kv.get'>> };
  /** The body is the value, of a known length. The query has a `KvWrite` as JSON in `write`. */
  'PUT /apps/:id/storage/kv/value': { body: Bytes; answer: null };
  /** Deletes the key of a `KvWrite`. */
  'POST /apps/:id/storage/kv/delete': { body: KvWrite; answer: null };
  /** Storage resources of each of these apps, by their names in the project. Unknown apps are left out. */
  'POST /places': { body: string[]; answer: KeptPlaces[] };
  'GET /apps/:id/vectors': { body: null; answer: Result<'storage.overview'>['vector_indexes'] };
  /** `index` and `call` in the query select the index and the operation. The body has its arguments. */
  'POST /apps/:id/vectors/read': { body: Bytes; answer: PassedOn<Result<'storage.vectorize.read'>> };
  'POST /apps/:id/vectors/write': { body: Bytes; answer: PassedOn<Result<'storage.vectorize.write'>> };
  'GET /apps/:id/buckets': { body: null; answer: Result<'storage.overview'>['buckets'] };
  /**
   * SQL of Analytics Engine over the data points of some apps. `owner`: the account; accounts take turns in the queue.
   * `elsewhere`: the datasets of the account's apps on other hosts.
   */
  'POST /datapoints/query': {
    body: { app_ids: string[]; owner: string; sql: string; elsewhere?: string[] };
    answer: Bytes;
  };
  'POST /overview': { body: { app_ids: string[] }; answer: HostOverview };
  'GET /stats': { body: null; answer: HostStats };
  'GET /settings': { body: null; answer: Result<'admin.settings'> };
  'GET /apps/:id/domain': { body: null; answer: DomainLookup };
  /** The figures of `GET /stats` and the metrics of every app, in the format of Prometheus. */
  'GET /metrics': { body: null; answer: Bytes };
  'GET /viewer': { body: null; answer: Bytes };
  /** `full`: why the disk cannot be written to now; null when it can. */
  'GET /disk': { body: null; answer: { full: string | null } };
  /**
   * `owner`: the account that sends the e-mail; accounts take turns in the queue. The answer says why the e-mail was not sent;
   * null when it was sent.
   */
  'POST /mail': { body: { mail: Mail; owner: string }; answer: string | null };
  'POST /ui/git-auth': { body: Bytes; answer: Bytes };
  /** The bodies have Wrangler's format. `owner`, and `app` if there is one, in the query identify the uploader. */
  'POST /uploads/assets': { body: Bytes; answer: { session: string; buckets: string[][] } };
  'POST /uploads/assets/:session': { body: Bytes; answer: { complete: boolean } };
  /** A batch of files of Workers Sites, in the format of KV's bulk writes. The answer: the number of files. */
  'POST /uploads/sites': { body: Bytes; answer: { files: number } };
  /** Starts the upload of a folder, in a session as for assets. The next call sends the contents of files: hash to base64. */
  'POST /apps/:id/uploads': {
    body: { manifest: Record<string, { hash: string; size: number }> };
    answer: { session: string; buckets: string[][] };
  };
  'POST /apps/:id/uploads/:session': { body: Record<string, string>; answer: { complete: boolean } };
  /** Responds when the deploy is queued. */
  'POST /apps/:id/uploads/:session/deploy': { body: { message: string; author: string }; answer: DeployFact };
  /** `secrets`: the secrets in the upload, with their values. The caller must set them. */
  'POST /uploads/versions': {
    body: Bytes;
    answer: { version: UploadedVersion; secrets: Record<string, string> };
  };
  /** Versions that are not deployed yet, newest first. */
  'GET /apps/:id/versions': { body: null; answer: UploadedVersion[] };
  /** Responds when the deploy has ended, or after some minutes. */
  'POST /apps/:id/versions/:deploy': {
    body: { owner: string; message: string; author: string };
    answer: DeployFact;
  };
  /** Deploys a version to its preview. Responds when the deploy has ended, or after some minutes. */
  'POST /apps/:id/versions/:deploy/preview': { body: { owner: string }; answer: DeployFact };
  /** The versions that share an app's requests; null when its live release gets all of them. */
  'GET /apps/:id/split': { body: null; answer: HostSplit | null };
  /**
   * Gives a second version a percentage of an app's requests, from 0 to less than 100. The second version is the release of a
   * deploy of the app, or an uploaded version of `owner`. `beside` is the version that the caller believes to be live.
   * Responds when the deploy has ended, or after some minutes; null when nothing was deployed.
   */
  'PUT /apps/:id/split': {
    body: {
      release: { deploy: string } | { version: string; owner: string };
      beside: string;
      percentage: number;
      author: string;
      message: string;
    };
    answer: DeployFact | null;
  };
  /** Lets the live release have all requests again. */
  'DELETE /apps/:id/split': { body: null; answer: null };
  /** The previews of an app, newest first. */
  'GET /apps/:id/previews': { body: null; answer: HostPreview[] };
  'GET /apps/:id/previews/:preview/log': {
    body: null;
    answer: { deploy_id: string; status: DeployFact['status']; log: string };
  };
  'DELETE /apps/:id/previews/:preview': { body: null; answer: null };
  /** Deploys a preview's release to its app. */
  'POST /apps/:id/previews/:preview/promote': { body: { author: string }; answer: DeployFact };
  /**
   * Deploys changed triggers. Responds when the deploy has ended, or after some minutes; `null` when the live release already has
   * these triggers. Fields that are left out do not change. `consumer` replaces the consumer of its queue. `without` names the
   * queue whose consumer is removed. `workflow` has a Workflow's new settings.
   */
  'PUT /apps/:id/triggers': {
    body: {
      crons?: string[];
      consumer?: QueueConsumer;
      without?: string;
      workflow?: WorkflowSettings;
      author: string;
    };
    answer: DeployFact | null;
  };
  /** The live release, or the release of the deploy or version that `deploy` in the query names; `null` without a release. */
  'GET /apps/:id/release': { body: null; answer: DescribedRelease | null };
  'GET /git/:id/:refs': { body: null; answer: Bytes };
  'POST /git/:id/:service': { body: Bytes; answer: Bytes };
}
export type HostCall = keyof HostCalls;
