// The text bindings of the control plane and of the control UI's server: settings, addresses and secrets.
import { readFileSync } from 'node:fs';
import type { Addresses } from './addresses.ts';
import { type Config, isLocal } from './config.ts';
import { machineNames } from './isolation/names.ts';

export const VERSION: string = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
).version;

/**
 * Returns the text bindings of the control plane, by name.
 * @param token the bearer token of the API
 * @param hostId the id of this host; empty for the only host
 */
export function controlVariables(
  config: Config,
  addresses: Addresses,
  token: string,
  hostId = '',
): Record<string, string> {
  return {
    HOST_ID: hostId,
    ...shared(config, addresses, token),
    BASE_DOMAIN: config.RUNNER_BASE_DOMAIN,
    DOMAIN_PROOF: config.RUNNER_DOMAIN_PROOF || (isLocal(config.RUNNER_BASE_DOMAIN) ? 'off' : 'on'),
    MACHINE_NAMES: machineNames(config.RUNNER_UI_URL).join(','),
    RUNNER_MAX_APPS_PER_USER: String(config.RUNNER_MAX_APPS_PER_USER),
    RUNNER_MAX_SCRIPTS_PER_USER: String(config.RUNNER_MAX_SCRIPTS_PER_USER),
    RUNNER_TELEMETRY_RETENTION_DAYS: String(config.RUNNER_TELEMETRY_RETENTION_DAYS),
    RUNNER_WAKE_TIMEOUT_S: String(config.RUNNER_WAKE_TIMEOUT_S),
    RUNNER_UI_URL: config.RUNNER_UI_URL,
    RUNNER_CORS_ORIGINS: config.RUNNER_CORS_ORIGINS.join(','),
    RUNNER_PUSH_TO_CREATE:
      config.RUNNER_PUSH_TO_CREATE || (isLocal(config.RUNNER_BASE_DOMAIN) ? 'on' : 'off'),
    SERVICE_EDGE_RPM: String(config.SERVICE_EDGE_RPM),
    SERVICE_EDGE_APP_RPM: String(config.SERVICE_EDGE_APP_RPM),
  };
}

/**
 * Returns the text bindings of the control UI's server, by name.
 * @param keys.secret authenticates the host
 * @param keys.signIn encrypts and signs what the server stores
 */
export function uiVariables(
  config: Config,
  addresses: Addresses,
  keys: { token: string; secret: string; signIn: string },
): Record<string, string> {
  return {
    ...shared(config, addresses, keys.token),
    HOST_SECRET: keys.secret,
    SIGN_IN_KEY: keys.signIn,
    VERSION,
    HAS_HOSTS: config.RUNNER_ADDRESS === null ? 'false' : 'true',
    RECEIVES_MAIL: config.RUNNER_MAIL_PORT === null ? 'false' : 'true',
    OIDC_URL: config.RUNNER_OIDC_URL ?? '',
    OIDC_CLIENT_ID: config.RUNNER_OIDC_CLIENT_ID,
    OIDC_CLIENT_SECRET: config.RUNNER_OIDC_CLIENT_SECRET,
    OIDC_NAME: config.RUNNER_OIDC_NAME,
    OIDC_SCOPES: config.RUNNER_OIDC_SCOPES,
    OIDC_GROUPS_CLAIM: config.RUNNER_OIDC_GROUPS_CLAIM,
    OIDC_ROLES: JSON.stringify(config.RUNNER_OIDC_ROLES),
    OIDC_REQUIRED: config.RUNNER_OIDC_REQUIRED,
    SERVICE_RATE_LIMIT_RPM: String(config.SERVICE_RATE_LIMIT_RPM),
    SERVICE_AUTH_RATE_LIMIT: String(config.SERVICE_AUTH_RATE_LIMIT),
  };
}

function shared(config: Config, { api, git, app, ui }: Addresses, token: string): Record<string, string> {
  return {
    RUNNER_TOKEN: token,
    PUBLIC_API_URL: api,
    PUBLIC_GIT_URL: git,
    PUBLIC_APP_URL: app,
    PUBLIC_UI_URL: ui,
    RUNNER_STORAGE: config.RUNNER_STORAGE,
    HAS_BUCKET: config.RUNNER_BUCKET ? 'true' : 'false',
    TCP_PORTS:
      config.RUNNER_TCP_PORTS === null
        ? ''
        : `${config.RUNNER_TCP_PORTS.first}-${config.RUNNER_TCP_PORTS.last}`,
    MAIL: config.RUNNER_SMTP_URL === null ? 'off' : 'on',
  };
}
