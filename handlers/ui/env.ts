// Bindings of the control UI's Worker.
import type { UiFiles } from '../contract/host/ui-files.ts';

/** Bindings. The host sets all those of type string. */
export interface Env {
  /** Sign-in data, such as passwords and sessions, and nothing else. */
  DB: D1Database;
  /** The API, in the control plane's process. */
  API: Fetcher;
  /** The directory of the static files for browsers. */
  DISK: Fetcher;
  /** The list of the static files. */
  FILES: UiFiles;
  RUNNER_TOKEN: string;
  /** Authenticates this Worker to the control plane; new at each start. */
  HOST_SECRET: string;
  /** Signs cookies and encrypts data of second factors; stays the same across starts. */
  SIGN_IN_KEY: string;
  /** This server's URL in browsers, such as `https://apps.example.com`. */
  PUBLIC_UI_URL: string;
  PUBLIC_API_URL: string;
  PUBLIC_GIT_URL: string;
  /** An app's URL, with `{slug}` in place of the app's slug. */
  PUBLIC_APP_URL: string;
  /** Cellar's version. */
  VERSION: string;
  /** `on` or `off`: whether e-mails can be sent. */
  MAIL: string;
  /** Where new apps store their data by default. */
  RUNNER_STORAGE: 'local' | 'bucket';
  /** Whether the host has a bucket. */
  HAS_BUCKET: 'true' | 'false';
  /** The TCP ports that apps may have, such as `20000-20100`; empty for none. */
  TCP_PORTS: string;
  /** Whether the host receives e-mails for apps. */
  RECEIVES_MAIL: 'true' | 'false';
  /** Whether the host is one of several. */
  HAS_HOSTS: 'true' | 'false';
  /** URL of the identity provider's discovery document; empty without a provider. */
  OIDC_URL: string;
  OIDC_CLIENT_ID: string;
  OIDC_CLIENT_SECRET: string;
  /** The provider's name on the sign-in page. */
  OIDC_NAME: string;
  /** The requested scopes, separated by spaces. */
  OIDC_SCOPES: string;
  /** The name of the claim with a person's groups. */
  OIDC_GROUPS_CLAIM: string;
  /**
   * JSON: a list of groups with their roles, in which the first group of a person counts; `null` when Cellar's roles apply.
   */
  OIDC_ROLES: string;
  /** `on` or `off`: whether people can sign in only by the provider. */
  OIDC_REQUIRED: string;
  /** Requests per minute for each client and class of routes; 0 is off. */
  SERVICE_RATE_LIMIT_RPM: string;
  /** Requests per minute to better-auth for each client; 0 is off. */
  SERVICE_AUTH_RATE_LIMIT: string;
}
