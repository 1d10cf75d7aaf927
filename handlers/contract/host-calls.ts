// What crosses the HOST binding and comes back through `POST /internal/host-events`. Types only: the host imports
// them too.

/** The settings of an app's builds. `null`: what the build finds by itself. Neither folder has `..` in it or a slash before it. */
export interface BuildSettings {
  /** Where in the repository the project is. */
  root_directory: string | null;
  /** These run in the shell, in that folder. */
  install_command: string | null;
  build_command: string | null;
  /** Of the static files, from the root directory. */
  output_directory: string | null;
}

/** An e-mail to one person, in plain text. */
export interface Mail {
  to: string;
  subject: string;
  text: string;
}

/** The whole wanted state of one app. Every transition sends all of it; the host refuses an older `generation`. */
export interface WantedApp {
  id: string;
  slug: string;
  /** The account that owns it. Left out by states that an older control plane sent. */
  owner?: string;
  /** Raised on every transition. One counter for all apps, so that an older D1 shows. */
  generation: number;
  desired_state: 'running' | 'stopped';
  asleep: boolean;
  /** Custom hostnames, lower case, besides `<slug>.<base domain>`. */
  hostnames: string[];
  /** Variables for install and build. */
  env: Record<string, string>;
  /** Left out by states that an older control plane sent. */
  builds?: BuildSettings;
  /** Requests per minute at the edge, per visitor and in all: null is the platform's default, 0 is off. */
  limits: { clientRpm: number | null; appRpm: number | null };
  /** Whether a push to another branch than main makes a preview. Left out by states that an older control plane sent. */
  previews?: PreviewSettings;
}

/** Whether a push to another branch makes a preview, and what a new one keeps at its beginning: nothing, or what the app keeps. */
export interface PreviewSettings {
  branches: boolean;
  storage: 'empty' | 'copy';
}

/** A preview, as the host has it. Times are ISO 8601. */
export interface HostPreview {
  /** What its address begins with. */
  name: string;
  /** The same, and what else it answers at: the name of the uploaded version that it shows. */
  names: string[];
  /** The branch that it shows; `null` for an upload. */
  branch: string | null;
  /** Whether a release of it answers. */
  serves: boolean;
  /** Its newest deploy; `null` before there is one. */
  deploy: Omit<DeployFact, 'app_id' | 'can_roll_back'> | null;
  created_at: string;
  expires_at: string;
}

/** What the host's process of an app is doing. `idle`: nothing to run, or hibernated. */
export type ProcessState = 'none' | 'starting' | 'running' | 'idle' | 'stopped' | 'crashed';

/** The host's facts about one app. */
export interface ObservedApp {
  id: string;
  generation: number;
  process_state: ProcessState;
  live_deploy_id: string | null;
  /** When the live release went live, ISO 8601. */
  deployed_at: string | null;
  last_error: string | null;
}

/** When something was seen: after fact `seq` of the host's outbox. What D1 has from a later fact is newer. */
export interface AsOf {
  outbox: string;
  seq: number;
}

/** An app in `GET /apps`, with what says whether it may be put to sleep. */
export interface ListedApp extends ObservedApp {
  /** The last minute with a request, ISO 8601; null when there was none. Health probes do not count. */
  last_activity_at: string | null;
  /** Requests and upgraded connections that are open. */
  open_streams: number;
}

/** A secret of an app, without its value. Times are ISO 8601. */
export interface SecretRecord {
  name: string;
  created_at: string;
  updated_at: string;
}

/** Values of secrets by name; `null` deletes one. */
export type SecretChanges = Record<string, string | null>;

/** One statement, a page of a table, or, with neither, what tables there are. `after`: where a page begins. */
interface TableQuestion {
  sql: string | null;
  table: string | null;
  sort: string | null;
  filter: string | null;
  after: string | null;
  limit: number;
}

/** A question to a database, which is named by its id or binding. */
/** Which database to give as SQL. `tables`: these alone. */
export interface ExportQuestion {
  database: string;
  tables: string[] | undefined;
}

export interface DatabaseQuestion extends TableQuestion {
  database: string;
}

/** A question to a class, or to one of its objects, by id or name. */
export interface ObjectQuestion extends TableQuestion {
  class_name: string;
  object: string | null;
  name: string | null;
  key: string | null;
}

/** A question to a namespace, which is named by its id or binding: its keys, or the value of one. */
export interface KeysQuestion {
  namespace: string;
  key: string | null;
  prefix: string;
  after: string | null;
  limit: number;
}

/** Settings of a Workflow, as `Workflow` of a release has them. */
export interface WorkflowSettings {
  name: string;
  steps?: number;
  retention?: { success?: number | string; error?: number | string };
}

/** A question about the instances of a Workflow. `after`: where a page begins. */
export interface InstancesQuestion {
  workflow: string;
  status: string | null;
  after: string | null;
  limit: number;
}

/** A step of an instance: `count` is which of those of its name and type, from 1. */
export interface StepReference {
  name: string;
  count?: number | undefined;
  type?: 'do' | 'sleep' | 'waitForEvent' | undefined;
}

/** A change of an instance of a Workflow. */
export type WorkflowAction = { workflow: string } & (
  | { action: 'create'; instance: string | null; params: unknown }
  | { action: 'pause' | 'resume' | 'delete'; instance: string }
  | { action: 'terminate'; instance: string; options: { rollback: boolean } }
  | { action: 'restart'; instance: string; options: { from: StepReference | null } }
  | { action: 'send_event'; instance: string; type: string; payload: unknown }
);

/** A value for a statement. Bytes are base64. */
export type SqlParameter = string | number | boolean | null | { $bytes: string };

/** A write: statements to a database, as one transaction, or one value of a namespace. `of`: its id or binding. */
export type StorageWrite =
  | { kind: 'd1'; of: string; statements: { sql: string; params: SqlParameter[] }[] }
  | {
      kind: 'kv';
      of: string;
      key: string;
      /** `null` deletes it. */
      value: { $bytes: string } | null;
      /** In s since 1970. */
      expiration: number | null;
      metadata: unknown;
    };

/** What became of each statement; empty for a namespace. */
export type StorageWritten = { changes: number; last_row_id: number | null; duration_ms: number }[];

/** An answer about what an app keeps: as the operation has it, with `next` for the place where the next page begins. */
export type Looked<Answer> = Omit<Answer, 'next_cursor'> & { next: string | null };

/** `live` while it serves, `replaced` when another deploy does. */
export type DeployStatus =
  | 'queued'
  | 'building'
  | 'live'
  | 'replaced'
  | 'failed'
  | 'superseded'
  | 'cancelled';
export type DeployTrigger = 'push' | 'rollback' | 'commit' | 'redeploy' | 'import' | 'upload' | 'promote';

/** What was uploaded and waits to be deployed: a release without an app's storage. */
export interface UploadedVersion {
  /** The id of the deploy that it becomes. */
  id: string;
  /** `null` when it came before its app was made. */
  app_id: string | null;
  /** The account and the name that it was uploaded for. */
  owner: string;
  author: string;
  message: string;
  tag: string;
  /** The name that its preview is to have; empty for one of its own. */
  alias: string;
  created_at: string;
  /** Lines for the log of its deploy. */
  notes: string[];
}

/** The Worker as the consumer of a queue. What is left out is as Cloudflare has it. */
export interface QueueConsumer {
  queue: string;
  maxBatchSize?: number;
  /** In s, as `retryDelay`. */
  maxBatchTimeout?: number;
  maxRetries?: number;
  retryDelay?: number;
  maxConcurrency?: number;
  deadLetterQueue?: string;
}

/** What an app keeps, by the names that its owner knows. */
export interface KeptPlaces {
  app_id: string;
  databases: { id: string; binding: string | null }[];
  namespaces: { id: string; binding: string | null }[];
  buckets: { id: string; binding: string | null }[];
  producers: string[];
  consumers: QueueConsumer[];
  /** `id`: the name. */
  workflows: { id: string; class_name: string; binding: string }[];
}

/** A binding to what lies outside of the app and of its storage. `type`: as Cloudflare's API calls it. */
export type Outward =
  | { type: 'ai'; binding: string }
  | { type: 'hyperdrive'; binding: string; id: string }
  | { type: 'analytics_engine'; binding: string; dataset: string }
  | {
      type: 'send_email';
      binding: string;
      destination_address?: string | undefined;
      allowed_destination_addresses?: string[] | undefined;
      allowed_sender_addresses?: string[] | undefined;
    };

/** A request of an app that has ended, as a tail shows it. */
export interface TailedRequest {
  /** When it began, in ms since 1970. */
  at: number;
  trace_id: string;
  method: string;
  host: string;
  /** Without its query. */
  path: string;
  /** 499 when the client left before an answer began. */
  status: number;
  /** The deploy that answered; null for none. */
  release: string | null;
  user_agent: string;
}

/** A release with its bindings as the project names them. */
export interface DescribedRelease {
  deploy_id: string;
  compatibility_date: string | null;
  compatibility_flags: string[];
  /** The tag of the app's last class migration; null when there was none. */
  migration_tag: string | null;
  vars: Record<string, unknown>;
  assets: string | null;
  durable_objects: { binding: string; class_name: string }[];
  workflows: { name: string; class_name: string; binding: string }[];
  /** `id`: as the project has it. */
  databases: { binding: string; id: string }[];
  namespaces: { binding: string; id: string }[];
  buckets: { binding: string; id: string }[];
  rate_limits: { binding: string; namespace: string; limit: number; period: number }[];
  /** `service`: the slug of another app; null: the Worker itself. */
  services: {
    binding: string;
    service: string | null;
    entrypoint?: string;
    props?: Record<string, unknown>;
  }[];
  outward: Outward[];
  /** The binding that tells the Worker which deploy it is of. */
  version_metadata: string | null;
  crons: string[];
  producers: { binding: string; queue: string }[];
  consumers: QueueConsumer[];
}

/** One step of a deploy, in the order run. */
export interface DeployStep {
  name: 'checkout' | 'install' | 'build' | 'bundle' | 'release' | 'start';
  status: 'running' | 'done' | 'failed' | 'skipped';
  duration_ms: number | null;
}

/** A deploy as the host knows it. Every change of it is told whole. */
export interface DeployFact {
  id: string;
  app_id: string;
  sha: string;
  ref: string;
  message: string;
  author: string;
  /** Who asked for a rollback or a deploy again, for people. */
  requested_by?: string;
  trigger: DeployTrigger;
  status: DeployStatus;
  /** Whether its release is kept. */
  can_roll_back: boolean;
  steps: DeployStep[];
  error: string | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
}

/** The deploys that the host was asked for. A deploy that it does not know is left out. */
export interface DeployFacts {
  as_of: AsOf;
  items: DeployFact[];
}

/** Lines that a deploy's log has got. */
export interface LinesFact {
  app_id: string;
  deploy_id: string;
  lines: string[];
}

/** A fact of the host, told through its outbox: in order for each app, and applied once by `seq`. */
export type HostEvent = { seq: number; at: string } & (
  | { type: 'deploy'; deploy: DeployFact }
  | { type: 'lines'; lines: LinesFact }
  | { type: 'app'; app: ObservedApp }
);

/** `POST /internal/host-events`. `outbox` names the host's database: its `seq` starts again only with a new name. */
export interface HostEvents {
  outbox: string;
  events: HostEvent[];
}
