// Every call of the handlers to the host, once: the client in `handlers/host` and the routes in `runtime/control` are typed
// from this list. The host imports it too.
import type { HostStats } from '../admin.ts';
import type { AppFigures } from '../apps/apps.ts';
import type { DomainLookup } from '../apps/domains.ts';
import type { Result } from '../index.ts';
import type { Alert, AlertDelivery } from '../telemetry/alerts.ts';
import type { GroupedError } from '../telemetry/grouped-errors.ts';
import type { LogLine } from '../telemetry/logs.ts';
import type {
  AsOf,
  DeployFact,
  DeployFacts,
  HostPreview,
  ListedApp,
  Mail,
  ObservedApp,
  SecretChanges,
  SecretRecord,
  WantedApp,
} from './host-calls.ts';
import type { DescribedRelease, KeptPlaces, QueueConsumer, UploadedVersion } from './host-releases.ts';
import type {
  DatabaseQuestion,
  ExportQuestion,
  InstancesQuestion,
  KeysQuestion,
  KvWrite,
  ObjectQuestion,
  WorkflowAction,
  WorkflowSettings,
} from './host-storage.ts';

/** A body or an answer that is no JSON: its sender writes the bytes by itself. */
export type Bytes = 'bytes';

/** What the host has. */
export interface HostInventory {
  as_of: AsOf;
  highest_generation: number;
  items: ListedApp[];
}

/** What several apps do, by id, and the machine's memory in bytes. */
export interface HostOverview {
  memory: { used_bytes: number; limit_bytes: number };
  apps: Record<string, AppFigures>;
}

/** What became of a wanted state. */
export interface Applied {
  app: ObservedApp;
  as_of: AsOf;
}

type SourceItem = Result<'source.tree'>['items'][number];

/** A file at a commit. */
export type HostBlob = SourceItem & { size: number; commit: string };

/** The settings of an alert; fields that are left out stay as they are. */
export type AlertSettings = Partial<Pick<Alert, 'url' | 'on' | 'error_rate'>>;

/** What is known of an object in a bucket. */
export type HostObject = Omit<Result<'storage.r2.get'>, 'content_base64'>;

/** A part of an object that is uploaded in parts. */
export interface UploadedPart {
  /** From 1 on. */
  part: number;
  etag: string;
}

/** A part of a list that is ordered by how many requests there were: from the `offset`th on. */
export interface BreakdownParams {
  appId: string;
  hours: number;
  limit: number;
  offset: number;
}

/** `next` is where the next page begins; null on the last. */
export interface Ranked<Item> {
  items: Item[];
  next: number | null;
}

type ItemOf<Name extends 'devices.list' | 'paths.list' | 'refs.list' | 'spans.list' | 'datapoints.list'> =
  Result<Name> extends { items: (infer Item)[] } ? Item : never;

/**
 * What the host's telemetry answers of an app, by the end of the path below `/apps/:id/telemetry/`. The query of the call
 * holds what is asked for besides the app.
 */
export interface TelemetryAnswers {
  metrics: { params: { appId: string; hours: number }; answer: Result<'metrics.get'> };
  'metrics/version': { params: { appId: string }; answer: Result<'metrics.version'> };
  /** Times in ms since 1970. `before` and `next` are ids of lines: the list goes on with those before. */
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
  /** `own`: the app's own host names, which the host adds. */
  refs: { params: BreakdownParams & { own?: string[] }; answer: Ranked<ItemOf<'refs.list'>> };
  /** `before`: the place that an answer before named. */
  spans: {
    params: { appId: string; hours: number; limit: number; before?: number | undefined };
    answer: Ranked<ItemOf<'spans.list'>>;
  };
  /** `before`: as with spans. */
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
  /** `afterAt` with `afterId`, and `next`, are places in the list: when the group there was seen last, and its number. */
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

/** The calls that read an app's telemetry. */
type TelemetryCalls = {
  [Name in keyof TelemetryAnswers as `GET /apps/:id/telemetry/${Name}`]: {
    body: null;
    answer: TelemetryAnswers[Name]['answer'];
  };
};

/**
 * By method and path; `:id` and `:deploy` are ids, `:sha` is a whole commit, `:refs` and `:service` are git's own words.
 * `null` is no body, and a 204.
 */
export interface HostCalls extends TelemetryCalls {
  'GET /apps/:id/telemetry/logs/stream': { body: null; answer: Bytes };
  'GET /apps/:id/telemetry/requests/stream': { body: null; answer: Bytes };
  'GET /apps/:id/telemetry/errors/stream': { body: null; answer: Bytes };
  'PUT /apps/:id/telemetry/errors/status': {
    body: { fingerprint: string; status: GroupedError['status'] };
    answer: GroupedError;
  };
  'PUT /apps/:id': { body: WantedApp; answer: Applied };
  'DELETE /apps/:id': { body: null; answer: null };
  'GET /apps': { body: null; answer: HostInventory };
  'GET /apps/:id': { body: null; answer: ListedApp };
  'GET /apps/:id/deploys/:deploy/log': { body: null; answer: Bytes };
  'POST /deploys': { body: { app_id: string; id: string }[]; answer: DeployFacts };
  /** Of `deploy_id`, the commit again; without it, the tip of main. */
  'POST /apps/:id/deploys': { body: { deploy_id: string | null; by: string }; answer: DeployFact };
  /** `by` is shown to people, here and below. */
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
  'GET /apps/:id/crons': { body: null; answer: Result<'crons.list'>['items'] };
  'POST /apps/:id/crons/run': { body: { cron: string }; answer: Result<'crons.run'> };
  'GET /apps/:id/workflows': { body: null; answer: Bytes };
  'POST /apps/:id/workflows/instances': { body: InstancesQuestion; answer: Bytes };
  'POST /apps/:id/workflows/instance': { body: { workflow: string; instance: string }; answer: Bytes };
  /** Of an instance that was deleted, `null`. */
  'POST /apps/:id/workflows/act': {
    body: WorkflowAction;
    answer: Result<'workflows.instances.create'> | null;
  };
  /** All that the app keeps, as `runtime/storage/copy-stream.ts` writes it. */
  'GET /apps/:id/copy': { body: null; answer: Bytes };
  'GET /apps/:id/r2/list': {
    body: null;
    answer: { items: HostObject[]; next: string | null; prefixes: string[] };
  };
  'GET /apps/:id/r2/head': { body: null; answer: HostObject };
  'GET /apps/:id/r2/bytes': { body: null; answer: Bytes };
  /** The body is the object, and of a length that is said before it comes. */
  'PUT /apps/:id/r2/object': { body: Bytes; answer: HostObject };
  /** The same of a part of an upload. */
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
  'GET /snapshots': { body: null; answer: Pick<Result<'snapshots.list'>, 'items'> };
  'POST /snapshots/restore': {
    body: { snapshot: string; app: string; database: string | null };
    answer: Result<'admin.restore'>;
  };
  'POST /snapshots/verify': { body: null; answer: Result<'snapshots.verify'> };
  'POST /snapshots': { body: null; answer: Result<'admin.snapshot'> };
  'GET /apps/:id/secrets': { body: null; answer: { items: SecretRecord[] } };
  /** `items`: all that the app has now. `replaced`: names that it had before. The rest is what `secrets.set` answers. */
  'PATCH /apps/:id/secrets': {
    body: SecretChanges;
    answer: { items: SecretRecord[]; replaced: string[]; in_effect: boolean; problem: string | null };
  };
  /** Without buckets. */
  'GET /apps/:id/storage': { body: null; answer: Bytes };
  'POST /apps/:id/storage/d1': { body: DatabaseQuestion; answer: Bytes };
  'POST /apps/:id/storage/export': { body: ExportQuestion; answer: Bytes };
  /** `database` of the query names whose. The body is `SqlQuery[]`, the answer `DatabaseAnswer<StatementResult[][]>`. */
  'POST /apps/:id/storage/query': { body: Bytes; answer: Bytes };
  /** The same with a body of SQL text, and `DatabaseAnswer<ImportResult>`. */
  'POST /apps/:id/storage/import': { body: Bytes; answer: Bytes };
  'POST /apps/:id/storage/do': { body: ObjectQuestion; answer: Bytes };
  'POST /apps/:id/storage/kv': { body: KeysQuestion; answer: Bytes };
  'POST /apps/:id/storage/kv/write': { body: KvWrite; answer: null };
  /** What each of these apps keeps, by the names that its owner knows. Apps that are not there are left out. */
  'POST /places': { body: string[]; answer: KeptPlaces[] };
  'GET /apps/:id/buckets': { body: null; answer: Result<'storage.overview'>['buckets'] };
  'POST /overview': { body: { app_ids: string[] }; answer: HostOverview };
  'GET /stats': { body: null; answer: HostStats };
  'GET /settings': { body: null; answer: Result<'admin.settings'> };
  'GET /apps/:id/domain': { body: null; answer: DomainLookup };
  /** The same and every app's, as Prometheus reads them. */
  'GET /metrics': { body: null; answer: Bytes };
  'GET /viewer': { body: null; answer: Bytes };
  /** `full`: why nothing can be written just now. */
  'GET /disk': { body: null; answer: { full: string | null } };
  /** `problem`: why the mail server did not take it. */
  'POST /mail': { body: { mail: Mail; owner: string }; answer: { problem: string | null } };
  'POST /ui/git-auth': { body: Bytes; answer: Bytes };
  /** The bodies are Wrangler's own; `owner`, and `app` if there is one, of the query say who uploads what. */
  'POST /uploads/assets': { body: Bytes; answer: { session: string; buckets: string[][] } };
  'POST /uploads/assets/:session': { body: Bytes; answer: { complete: boolean } };
  /** `secrets`: values that came with it, which are the caller's to set. */
  'POST /uploads/versions': {
    body: Bytes;
    answer: { version: UploadedVersion; secrets: Record<string, string> };
  };
  /** Versions that wait to be deployed, newest first. */
  'GET /apps/:id/versions': { body: null; answer: UploadedVersion[] };
  /** Answers with the deploy when that has ended, or after some minutes. */
  'POST /apps/:id/versions/:deploy': {
    body: { owner: string; message: string; author: string };
    answer: DeployFact;
  };
  /** Deploys a version to its preview, and answers as the same. */
  'POST /apps/:id/versions/:deploy/preview': { body: { owner: string }; answer: DeployFact };
  /** The previews of an app, newest first. */
  'GET /apps/:id/previews': { body: null; answer: HostPreview[] };
  'GET /apps/:id/previews/:preview/log': {
    body: null;
    answer: { deploy_id: string; status: DeployFact['status']; log: string };
  };
  'DELETE /apps/:id/previews/:preview': { body: null; answer: null };
  /** Deploys what a preview shows to its app. */
  'POST /apps/:id/previews/:preview/promote': { body: { author: string }; answer: DeployFact };
  /**
   * The same; `null` when the live release has these triggers. What is left out stays as it is. `consumer` takes the place
   * of that of its queue, `without` is the queue of one that goes, `workflow` has the settings that one is to have.
   */
  'PUT /apps/:id/triggers': {
    body: {
      crons?: string[];
      consumer?: QueueConsumer;
      without?: string;
      workflow?: WorkflowSettings;
      author: string;
    };
    answer: { deploy: DeployFact | null };
  };
  /** The live release, or that of the deploy or version that `deploy` of the query names; `null` when there is none. */
  'GET /apps/:id/release': { body: null; answer: { release: DescribedRelease | null } };
  'GET /git/:id/:refs': { body: null; answer: Bytes };
  'POST /git/:id/:service': { body: Bytes; answer: Bytes };
}
export type HostCall = keyof HostCalls;
