// What the control plane is given, but for the objects of its apps: those are given it too.

/** Bindings. Every text is set by the host. */
export interface Bindings {
  DB: D1Database;
  BUCKET: R2Bucket;
  HOST: Fetcher;
  RUNNER_TOKEN: string;
  /** Proves the host to this Worker and this Worker to the host; new at each start. */
  HOST_SECRET: string;
  PUBLIC_API_URL: string;
  PUBLIC_GIT_URL: string;
  /** Origin of the control UI. */
  PUBLIC_UI_URL: string;
  /** With `{slug}` where an app's slug belongs. */
  PUBLIC_APP_URL: string;
  BASE_DOMAIN: string;
  /** `on` or `off`: whether hostnames are served only after their DNS proves them. */
  DOMAIN_PROOF: string;
  /** Names of this machine, separated by commas, which no app may have. */
  MACHINE_NAMES: string;
  RUNNER_MAX_APPS_PER_USER: string;
  /** Requests per minute and visitor where an app says nothing else. */
  SERVICE_EDGE_RPM: string;
  /** Requests per minute of a whole app where it says nothing else; 0 is off. */
  SERVICE_EDGE_APP_RPM: string;
  /** Hours without use after which an app is put to sleep; 0 is never. */
  RUNNER_SLEEP_AFTER_H: string;
  RUNNER_TELEMETRY_RETENTION_DAYS: string;
  /** Seconds that a wake may take. */
  RUNNER_WAKE_TIMEOUT_S: string;
  /** Origin of an outside control UI; empty when there is none. */
  RUNNER_UI_URL: string;
  /** Origins whose pages may call the API, separated by commas; empty for none. */
  RUNNER_CORS_ORIGINS: string;
  /** `on` or `off`: whether links are sent by e-mail too. */
  MAIL: string;
  /** `on` or `off`: whether a push to a slug that no app has makes the app. */
  RUNNER_PUSH_TO_CREATE: string;
}
