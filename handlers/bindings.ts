// Bindings of the control plane and of its Durable Objects.

/** Bindings. The host sets all those of type string. */
export interface Bindings {
  DB: D1Database;
  /** SQL files that Wrangler uploads to import, or downloads as an export. */
  FILES: KVNamespace;
  HOST: Fetcher;
  RUNNER_TOKEN: string;
  /** The id of the host that this process belongs to. Empty in a Cellar of one host. */
  HOST_ID: string;
  /** Authenticates the host to this Worker, and this Worker to the host. Stored in the host's data directory. */
  HOST_SECRET: string;
  PUBLIC_API_URL: string;
  PUBLIC_GIT_URL: string;
  /** Origin of the control UI. */
  PUBLIC_UI_URL: string;
  /** Origin of an app, with the placeholder `{slug}`. */
  PUBLIC_APP_URL: string;
  BASE_DOMAIN: string;
  /** `on` or `off`: whether custom hostnames are served only after a DNS lookup has proved them. */
  DOMAIN_PROOF: string;
  /** Reserved hostnames of this machine, separated by commas. No app may have one. */
  MACHINE_NAMES: string;
  RUNNER_MAX_APPS_PER_USER: string;
  RUNNER_MAX_SCRIPTS_PER_USER: string;
  /** Requests per minute and visitor for apps without a limit of their own; 0 is off. */
  SERVICE_EDGE_RPM: string;
  /** Requests per minute of a whole app without a limit of its own; 0 is off. */
  SERVICE_EDGE_APP_RPM: string;
  RUNNER_TELEMETRY_RETENTION_DAYS: string;
  /** Timeout of a wake in seconds. */
  RUNNER_WAKE_TIMEOUT_S: string;
  /** Origin of an external control UI; empty when there is none. */
  RUNNER_UI_URL: string;
  /** Origins whose pages may call the API, separated by commas; empty for none. */
  RUNNER_CORS_ORIGINS: string;
  /** `on` or `off`: whether links for invitations and new passwords are sent by e-mail too. */
  MAIL: string;
  /** `on` or `off`: whether a push to an unused slug creates the app. */
  RUNNER_PUSH_TO_CREATE: string;
  /** The TCP ports that apps may have, such as `20000-20100`; empty for none. */
  TCP_PORTS: string;
  /** Where new apps keep their data by default. */
  RUNNER_STORAGE: 'local' | 'bucket';
  HAS_BUCKET: 'true' | 'false';
}
