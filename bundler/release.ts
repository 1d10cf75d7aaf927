// What a build leaves behind, as data: `Bundle` names things as the project does, `Release` adds where each
// thing's storage lies.

import type { Outward, QueueConsumer } from '../handlers/contract/host/host-releases.ts';

/** The name of a `Release` in its directory. */
export const RELEASE_FILE = 'release.json';

/** A module of a Worker. `path` is relative to the release's directory; `name` is what `import` resolves to. */
export interface Module {
  name: string;
  type: 'esm' | 'commonjs' | 'text' | 'data' | 'wasm' | 'json';
  path: string;
}

/** Static assets, served by workerd itself. `directory` is relative to the release's directory. */
export interface Assets {
  directory: string;
  /** The name of the Worker's binding to the assets, if it asked for one. */
  binding: string | null;
  notFoundHandling: 'none' | '404-page' | 'single-page-application';
  htmlHandling: 'auto-trailing-slash' | 'force-trailing-slash' | 'drop-trailing-slash' | 'none';
  /** `true`: the Worker answers first, always. A list: path patterns for which it does (`!` excludes). */
  runWorkerFirst: boolean | string[];
  /** Left out by builds of before, whose rules lie in the directory alone. */
  rules?: AssetRules;
}

/** The text of `_headers`, `_redirects` and `.assetsignore`, as far as they are there. workerd applies it. */
export type AssetRules = Partial<Record<'headers' | 'redirects' | 'ignore', string>>;

/** One step of a Wrangler `migrations` list, in the project's own words. */
export interface ClassMigration {
  /** `null`: of a declarative `exports` list, to be applied on every deploy. */
  tag: string | null;
  newClasses: string[];
  newSqliteClasses: string[];
  renamedClasses: { from: string; to: string }[];
  deletedClasses: string[];
}

/** One D1 migration file: `name` as recorded in the database, `path` relative to the release's directory. */
export interface DatabaseMigration {
  name: string;
  path: string;
}

/** A binding to a D1 database. */
interface Database {
  binding: string;
  /** The project's `database_name`, if it has one. */
  name?: string;
  migrations: DatabaseMigration[];
  /** The table that records the migrations, where it is not `d1_migrations`. */
  migrationsTable?: string;
}

export type { Outward, QueueConsumer };

/** Cron triggers and queues: what calls the Worker besides requests. A queue keeps its messages under its name. */
export interface Triggers {
  /** Cron expressions, each once. */
  crons: string[];
  producers: { binding: string; queue: string }[];
  consumers: QueueConsumer[];
}

/** A rate limit: `limit` calls of a key in `period` seconds. Those of one namespace count together. */
export interface RateLimit {
  binding: string;
  namespace: string;
  limit: number;
  period: 10 | 60;
}

/** A Workflow: `className` is exported by the entry module, and instances are kept under `name`. */
export interface Workflow {
  binding: string;
  name: string;
  className: string;
  /** Most steps of an instance. Left out: as the engine has it. */
  steps?: number;
  /** How long ended instances are kept, in ms or as in `3 days`. Left out: as the engine has it. */
  retention?: { success?: number | string; error?: number | string };
}

/** A binding to a Worker. */
export interface ServiceBinding {
  binding: string;
  /** The slug of an app of the same owner; `null`: the project's own Worker. */
  service: string | null;
  /** The export that answers. Left out: the default one. */
  entrypoint?: string;
  /** What the export finds as `ctx.props`. */
  props?: Record<string, unknown>;
}

/** Files that a deploy puts into a bucket or a namespace of the app before the release serves. */
export interface Prefill {
  kind: 'bucket' | 'namespace';
  binding: string;
  /** Their directory, relative to the release's. The path of each from there, behind `prefix/`, is its key. */
  directory: string;
  prefix: string;
  /** How many there are. */
  files: number;
}

/** A Worker, bundled. */
interface Worker {
  /** The first one is the entry. */
  modules: Module[];
  compatibilityDate: string;
  compatibilityFlags: string[];
  /** The file in the project that the entry was bundled from. Left out of what was bundled elsewhere, and by builds of before. */
  main?: string;
}

/** A project, bundled. Everything it refers to by path lies in the directory it was bundled into. */
export interface Bundle {
  /** `null` for a static site without a Worker. */
  worker: Worker | null;
  /** The names that the entry module exports; empty without a Worker. */
  exports: string[];
  vars: Record<string, unknown>;
  assets: Assets | null;
  /** Durable Object bindings. Classes are named by `className` and exported by the entry module. */
  durableObjects: { binding: string; className: string }[];
  classMigrations: ClassMigration[];
  /** `key` is the database's stable name: `database_id`, else `database_name`, else the binding. */
  databases: (Database & { key: string })[];
  /** `key` is the namespace's stable name: `id`, else the binding. */
  namespaces: { binding: string; key: string }[];
  /** `key` is the bucket's stable name: `bucket_name`, else the binding. Left out when there is none. */
  buckets?: { binding: string; key: string }[];
  /** Left out when there is none. */
  workflows?: Workflow[];
  /** Left out when there is none. */
  rateLimits?: RateLimit[];
  /** Left out when there is none. */
  services?: ServiceBinding[];
  outward?: Outward[];
  /** The binding that tells the Worker which deploy it is of; `tag`: as the author named the version. */
  versionMetadata?: { binding: string; tag: string };
  /** CPU time that the app may compute for without a pause, in ms; left out where the project does not say. */
  cpuMs?: number;
  /** Left out when there is none. */
  triggers?: Triggers;
  /** Names of secrets without which it is not deployed. Left out when there is none. */
  requiredSecrets?: string[];
  /** Left out when there is none. */
  prefill?: Prefill;
  /** What its author has to know. Left out when there is none. */
  warnings?: string[];
}

/** A bundle whose storage is resolved. Immutable once written; starting it reads nothing else. */
export interface Release {
  format: 1;
  deployId: string;
  sha: string;
  worker: Bundle['worker'];
  /** The names that the entry module exports. Left out by builds of before. */
  exports?: string[];
  vars: Record<string, unknown>;
  assets: Assets | null;
  /** Every Durable Object class that keeps storage. `storageId` is workerd's `uniqueKey`. */
  classes: { className: string; storageId: string; sql: boolean }[];
  durableObjects: { binding: string; className: string }[];
  /** `storageId` is the database's name inside the D1 service. */
  databases: (Database & { storageId: string })[];
  /** `storageId` is the namespace's name inside the KV service. */
  namespaces: { binding: string; storageId: string }[];
  /** `storageId` is the bucket's name inside the host's bucket service. Left out when there is none. */
  buckets?: { binding: string; storageId: string }[];
  workflows?: Workflow[];
  rateLimits?: RateLimit[];
  services?: ServiceBinding[];
  outward?: Outward[];
  /** `id`: the version's, left out by builds of before. `timestamp`: when it was uploaded or built, in ISO 8601. */
  versionMetadata?: { binding: string; tag: string; id?: string; timestamp: string };
  cpuMs?: number;
  triggers?: Triggers;
  requiredSecrets?: string[];
  prefill?: Prefill & { storageId: string };
  warnings?: string[];
}
