// What the Worker of the control UI is given.
import type { UiFiles } from '../contract/host/ui-files.ts';

/** Bindings. Every text is set by the host. */
export interface Env {
  /** What people sign in with, and nothing else. */
  DB: D1Database;
  /** The API, in the control plane's process. */
  API: Fetcher;
  /** The directory of the files that browsers get. */
  DISK: Fetcher;
  /** What lies there. */
  FILES: UiFiles;
  RUNNER_TOKEN: string;
  /** Proves this Worker to the control plane; new at each start. */
  HOST_SECRET: string;
  /** Signs cookies and encrypts what belongs to second factors; kept. */
  SIGN_IN_KEY: string;
  /** Where browsers find this, such as `https://apps.example.com`. */
  PUBLIC_UI_URL: string;
  PUBLIC_API_URL: string;
  PUBLIC_GIT_URL: string;
  /** With `{slug}` where an app's slug belongs. */
  PUBLIC_APP_URL: string;
  /** Of Cellar. */
  VERSION: string;
  /** `on` or `off`: whether e-mails can be sent. */
  MAIL: string;
  /** Requests per minute, client and class of routes; 0 is off. */
  SERVICE_RATE_LIMIT_RPM: string;
  /** Requests per minute and client that the library takes; 0 is off. */
  SERVICE_AUTH_RATE_LIMIT: string;
}
