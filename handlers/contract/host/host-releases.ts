// The host's data about an app's releases: uploaded versions, bindings and storage. Types only, as in `host-calls.ts`.

/** An upload that is not deployed yet: a release without an app's storage. */
export interface UploadedVersion {
  /** Also the id of its first deploy to the app. Later deploys, and deploys to a preview, get new ids. */
  id: string;
  /** `null` when it was uploaded before its app was created. */
  app_id: string | null;
  /** The account's id and the name of the uploaded script: `<account>/<script>`. */
  owner: string;
  author: string;
  message: string;
  tag: string;
  /** The requested name of the version's preview; empty when Cellar generates the name. */
  alias: string;
  created_at: string;
  /** Lines that are added to the log of its deploy. */
  notes: string[];
}

/** The Worker's consumer settings for a queue. A setting that is left out has Cloudflare's default. */
export interface QueueConsumer {
  queue: string;
  maxBatchSize?: number;
  /** Time in s, like `retryDelay`. */
  maxBatchTimeout?: number;
  maxRetries?: number;
  retryDelay?: number;
  maxConcurrency?: number;
  deadLetterQueue?: string;
}

/** An app's storage resources. `id`: the name in the project. `binding`: the live release's binding; null without one. */
export interface KeptPlaces {
  app_id: string;
  databases: { id: string; binding: string | null }[];
  namespaces: { id: string; binding: string | null }[];
  buckets: { id: string; binding: string | null }[];
  vector_indexes: { id: string; binding: string | null }[];
  producers: string[];
  consumers: QueueConsumer[];
  /** `id`: the Workflow's name. */
  workflows: { id: string; class_name: string; binding: string }[];
}

/** A binding to something outside the app and its storage. `type`: the name in Cloudflare's API. */
export type Outward =
  | { type: 'ai'; binding: string }
  | { type: 'images'; binding: string }
  | { type: 'browser'; binding: string }
  | { type: 'hyperdrive'; binding: string; id: string }
  | { type: 'analytics_engine'; binding: string; dataset: string }
  /** `bucket`: the binding of the R2 bucket into which the pipeline writes. */
  | { type: 'pipelines'; binding: string; pipeline: string; bucket: string }
  | {
      type: 'send_email';
      binding: string;
      destination_address?: string | undefined;
      allowed_destination_addresses?: string[] | undefined;
      allowed_sender_addresses?: string[] | undefined;
    }
  /** A binding that is not supported. A use of the binding throws an error with this message. */
  | { type: 'missing'; binding: string; message: string };

/** A release with its bindings by their names in the project. */
export interface DescribedRelease {
  deploy_id: string;
  compatibility_date: string | null;
  compatibility_flags: string[];
  /** The tag of the app's last class migration; null when there was none. */
  migration_tag: string | null;
  vars: Record<string, unknown>;
  assets: string | null;
  /** `script_name`: slug of another app that has the class. */
  durable_objects: { binding: string; class_name: string; script_name?: string }[];
  /** Classes whose objects have containers. */
  containers: { class_name: string; image: string }[];
  workflows: { name: string; class_name: string; binding: string }[];
  /** `id`: the name in the project; also in the next three fields. */
  databases: { binding: string; id: string }[];
  namespaces: { binding: string; id: string }[];
  buckets: { binding: string; id: string }[];
  vector_indexes: { binding: string; id: string }[];
  rate_limits: { binding: string; namespace: string; limit: number; period: number }[];
  /** `service`: slug of another app; null: the Worker itself. */
  services: {
    binding: string;
    service: string | null;
    entrypoint?: string;
    props?: Record<string, unknown>;
  }[];
  dispatch_namespaces: { binding: string; namespace: string }[];
  store_secrets: { binding: string; store: string; secret: string }[];
  /** `certificate`: the id of a client certificate. */
  mtls_certificates: { binding: string; certificate: string }[];
  outward: Outward[];
  /** The name of the binding from which the Worker reads the id of its deploy; null without one. */
  version_metadata: string | null;
  /** Bindings that load Workers at run time. */
  worker_loaders: string[];
  /** Slugs of the apps whose `tail()` gets the Worker's events. */
  tail_consumers: string[];
  crons: string[];
  producers: { binding: string; queue: string }[];
  consumers: QueueConsumer[];
}
