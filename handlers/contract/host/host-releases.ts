// What the host tells of an app's releases: uploaded versions, bindings, and where what the app keeps lies. Types only, as in
// `host-calls.ts`.

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
    }
  /** Not available here: it throws this message when it is used. */
  | { type: 'missing'; binding: string; message: string };

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
