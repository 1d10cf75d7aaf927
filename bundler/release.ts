// A build's result, as data. `Bundle` uses the project's names; `Release` adds storage ids.

import type { Outward, QueueConsumer } from '../handlers/contract/host/host-releases.ts';

/** The name of a `Release` in its directory. */
export const RELEASE_FILE = 'release.json';
/** The folder of `Prefill` files in a release: the only value of `Prefill.directory`. */
export const PREFILL = 'next-cache';
/** Advice for a cache above a limit. */
export const FEWER_PAGES = 'make fewer pages at build time';

/** A module of a Worker. `path` is relative to the release's directory; `name` is what `import` resolves to. */
export interface Module {
  name: string;
  type: 'esm' | 'commonjs' | 'text' | 'data' | 'wasm' | 'json';
  path: string;
}

/** Static assets, served by workerd itself. `directory` is relative to the release's directory. */
export interface Assets {
  directory: string;
  /** The name of the Worker's assets binding, if it has one. */
  binding: string | null;
  notFoundHandling: 'none' | '404-page' | 'single-page-application';
  htmlHandling: 'auto-trailing-slash' | 'force-trailing-slash' | 'drop-trailing-slash' | 'none';
  /** `true`: the Worker always answers first. A list: path patterns where it does (`!` excludes). */
  runWorkerFirst: boolean | string[];
  /** The URL path below which the files are served, such as `/docs`. workerd refuses an invalid one. Omitted: `/`. */
  basePath?: string;
  /** Omitted by older builds, whose rules are only in the directory. */
  rules?: AssetRules;
  /**
   * Only of Workers Sites: the path of the manifest, relative to the release's directory. Then the Worker reads the files
   * through the namespace `__STATIC_CONTENT`, and all other fields but `directory` have no effect.
   */
  siteManifest?: string;
}

/** The text of each of the files `_headers`, `_redirects` and `.assetsignore` that exists. workerd applies these rules. */
export type AssetRules = Partial<Record<'headers' | 'redirects' | 'ignore', string>>;

/** One step of a Wrangler `migrations` list, with the project's names of classes. */
export interface ClassMigration {
  /** `null`: from declarative `exports`, which every deploy applies. */
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

interface Database {
  binding: string;
  /** The project's `database_name`, if it has one. */
  name?: string;
  migrations: DatabaseMigration[];
  /** The table that records the migrations, unless it is `d1_migrations`. */
  migrationsTable?: string;
}

export type { Outward, QueueConsumer };

/** Cron triggers, and the queues that the Worker sends to or consumes. A queue stores its messages under its name. */
export interface Triggers {
  /** Cron expressions without duplicates. */
  crons: string[];
  producers: { binding: string; queue: string }[];
  consumers: QueueConsumer[];
}

/** A rate limit: `limit` calls with the same key in `period` seconds. Limits of one `namespace` share their counts. */
export interface RateLimit {
  binding: string;
  namespace: string;
  limit: number;
  period: 10 | 60;
}

/** A Workflow. The Worker's entry exports the class `className`. Instances are stored under `name`. */
export interface Workflow {
  binding: string;
  name: string;
  className: string;
  /** Maximum steps of an instance. Omitted: the default of workerd's Workflows engine. */
  steps?: number;
  /** Retention of ended instances, in ms or as in `3 days`. Omitted: the default of workerd's Workflows engine. */
  retention?: { success?: number | string; error?: number | string };
}

export interface ServiceBinding {
  binding: string;
  /** The slug of an app of the same owner, or `cellar` for Cellar itself. `null`: the project's own Worker. */
  service: string | null;
  /** The export of the called app that receives the calls. Omitted: the default export. */
  entrypoint?: string;
  /** The value of `ctx.props` in the called export. */
  props?: Record<string, unknown>;
}

/** A binding to a dispatch namespace of the owner. */
export interface DispatchBinding {
  binding: string;
  namespace: string;
  /**
   * The outbound Worker: the app `service` receives each `fetch()` of the called script. `parameters`: names of its
   * variables.
   */
  outbound?: { service: string; parameters: string[] };
}

/** A binding to a secret of a Secrets Store of the owner. */
export interface StoreSecretBinding {
  binding: string;
  /** The id of the store. */
  store: string;
  /** The name of the secret. */
  secret: string;
}

/** A binding that fetches with a client certificate of the owner. */
export interface MtlsBinding {
  binding: string;
  /** The id of the certificate. */
  certificate: string;
}

/** An `MtlsBinding` of a release, with the certificate itself. */
export interface ReleasedMtlsBinding extends MtlsBinding {
  /** The certificate and its chain, in PEM. */
  chain: string;
  /** The encrypted private key, in base64. `null`: requests are sent without the certificate. */
  sealedKey: string | null;
}

/** A binding to a class of Durable Objects in another app. */
export interface ObjectsElsewhere {
  binding: string;
  /** The slug of an app of the same owner. */
  script: string;
  className: string;
}

/** Files that a deploy puts into a bucket or a namespace of the app before the release serves. */
export interface Prefill {
  kind: 'bucket' | 'namespace';
  binding: string;
  /** The files' directory, relative to the release's. A file's key is `prefix`, a slash and its path in this directory. */
  directory: string;
  prefix: string;
  /** Number of files. */
  files: number;
}

interface Worker {
  /** The first module is the Worker's entry. */
  modules: Module[];
  compatibilityDate: string;
  compatibilityFlags: string[];
  /** The project file from which Cellar bundled the Worker's entry. Omitted for uploads of Wrangler, and by older builds. */
  main?: string;
}

/** A bundled project. All its paths lie in the directory of the bundle. */
export interface Bundle {
  /** `null` for a static site without a Worker. */
  worker: Worker | null;
  /** The names that the entry module exports; empty without a Worker. */
  exports: string[];
  vars: Record<string, unknown>;
  assets: Assets | null;
  /** Durable Object bindings. The Worker's entry exports the class `className`. */
  durableObjects: { binding: string; className: string }[];
  /** Omitted when empty. */
  objectsElsewhere?: ObjectsElsewhere[];
  classMigrations: ClassMigration[];
  /** `key` is the database's stable name: `database_id`, else `database_name`, else the binding. */
  databases: (Database & { key: string })[];
  /** `key` is the namespace's stable name: `id`, else the binding. */
  namespaces: { binding: string; key: string }[];
  /** `key` is the bucket's stable name: `bucket_name`, else the binding. Omitted when empty. */
  buckets?: { binding: string; key: string }[];
  /** `key` is the stable name of the vector index: `index_name`. Omitted when empty. */
  vectorIndexes?: { binding: string; key: string }[];
  /** Omitted when empty. */
  workflows?: Workflow[];
  /** Omitted when empty. */
  rateLimits?: RateLimit[];
  /** Omitted when empty. */
  services?: ServiceBinding[];
  /** Omitted when empty. */
  dispatchNamespaces?: DispatchBinding[];
  /** Omitted when empty. */
  storeSecrets?: StoreSecretBinding[];
  /** Omitted when empty. */
  mtlsCertificates?: MtlsBinding[];
  /** Slugs of the owner's apps whose `tail()` gets the Worker's events. Omitted when empty. */
  tailConsumers?: string[];
  outward?: Outward[];
  /** The binding that gives the Worker its version; `tag`: the author's name for the version. */
  versionMetadata?: { binding: string; tag: string };
  /** Bindings that load Workers from code at run time. Omitted when empty. */
  workerLoaders?: { binding: string }[];
  /** Classes whose objects have containers. Omitted when empty. */
  containers?: ClassContainer[];
  /** Maximum CPU time without a pause, in ms; omitted if the project does not set it. */
  cpuMs?: number;
  /** Omitted when empty. */
  triggers?: Triggers;
  /** Names of required secrets: a deploy without them fails. Omitted when empty. */
  requiredSecrets?: string[];
  /** Omitted when empty. */
  prefill?: Prefill;
  /** Warnings for the author. Omitted when empty. */
  warnings?: string[];
}

/** The container of each object of a Durable Object class. */
export interface ClassContainer {
  className: string;
  /** Name of an image that the container engine has. */
  image: string;
  memoryMb: number;
  /** Thousandths of a processor. */
  cpu: number;
  /** Maximum running containers of the class. */
  instances: number;
}

/** A bundle with storage ids. Its file is never changed. */
export interface Release {
  format: 1;
  deployId: string;
  sha: string;
  worker: Bundle['worker'];
  /** The names that the entry module exports. Omitted by older builds. */
  exports?: string[];
  vars: Record<string, unknown>;
  assets: Assets | null;
  /** Every Durable Object class with storage. `storageId` is workerd's `uniqueKey`. */
  classes: { className: string; storageId: string; sql: boolean }[];
  durableObjects: { binding: string; className: string }[];
  /** `storageId` is the class's `uniqueKey` in the other app. */
  objectsElsewhere?: (ObjectsElsewhere & { storageId: string })[];
  /** `storageId` is the database's name inside the D1 service. */
  databases: (Database & { storageId: string })[];
  /** `storageId` is the namespace's name inside the KV service. */
  namespaces: { binding: string; storageId: string }[];
  /** `storageId` is the bucket's name inside the host's bucket service. Omitted when empty. */
  buckets?: { binding: string; storageId: string }[];
  /** `storageId` is the name of the vector index inside the host's vectors service. Omitted when empty. */
  vectorIndexes?: { binding: string; storageId: string }[];
  workflows?: Workflow[];
  rateLimits?: RateLimit[];
  services?: ServiceBinding[];
  dispatchNamespaces?: DispatchBinding[];
  storeSecrets?: StoreSecretBinding[];
  mtlsCertificates?: ReleasedMtlsBinding[];
  tailConsumers?: string[];
  outward?: Outward[];
  /** `id`: the version's id, omitted by older builds. `timestamp`: the time of its upload or build, in ISO 8601. */
  versionMetadata?: { binding: string; tag: string; id?: string; timestamp: string };
  workerLoaders?: { binding: string }[];
  /** Classes whose objects have containers. Omitted when empty. */
  containers?: ClassContainer[];
  cpuMs?: number;
  triggers?: Triggers;
  requiredSecrets?: string[];
  prefill?: Prefill & { storageId: string };
  warnings?: string[];
}
