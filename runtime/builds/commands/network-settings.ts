// How builds reach the network: the proxy of this machine, its certificates, and npm's registry.
import { lookup } from 'node:dns/promises';
import { delimiter } from 'node:path';
import type { Endpoint } from '../../isolation/firewall.ts';
import { runChild } from '../../processes/child.ts';
import { searchPath } from '../../processes/programs.ts';

/**
 * Variables for the proxy and the certificates of this machine. Installers behind a company's proxy need them. Builds get no
 * other variables of the host, because these may be secret.
 */
const NETWORK_VARIABLES = [
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
];
/** npm's settings that builds get as environment variables. */
const NPM_SETTINGS = ['registry', 'cafile', 'proxy', 'https-proxy', 'noproxy'];
/** Variables of builds whose values are paths of certificate files or directories. */
const CERTIFICATES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'npm_config_cafile'];
const TIMEOUT_MS = 30_000;

/** Returns the host's variables that configure its network access. */
export function networkVariables(): Record<string, string> {
  return Object.fromEntries(
    NETWORK_VARIABLES.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

let settings: Promise<Record<string, string>> | undefined;

/**
 * Reads how npm reaches its registry, from the configuration of the host's user, whose home a build does not see. Takes only
 * addresses and certificates: the code of apps must not get a token from that file.
 */
export function npmSettings(): Promise<Record<string, string>> {
  // npm refuses to print a registry with a password, and then prints no other setting.
  settings ??= askNpm(NPM_SETTINGS)
    .catch(() => askNpm(NPM_SETTINGS.filter((name) => name !== 'registry')))
    .then(
      ({ output }) =>
        Object.fromEntries(
          [...output.toString('utf8').matchAll(/^([a-z-]+)=(.+)$/gm)].flatMap(([, name = '', value = '']) =>
            !NPM_SETTINGS.includes(name) || value === 'null'
              ? []
              : [[`npm_config_${name.replace('-', '_')}`, value]],
          ),
        ),
      () => ({}),
    );
  return settings;
}

function askNpm(names: string[]): Promise<{ output: Buffer }> {
  return runChild(['npm', 'config', 'get', ...names], {
    // Run outside directories where other users could leave an npm configuration.
    cwd: '/',
    timeoutMs: TIMEOUT_MS,
    environment: { ...definedVariables(), PATH: [...searchPath(), process.env.PATH].join(delimiter) },
  });
}

/** Returns the paths of certificate files and directories that builds may read. */
export async function certificateFiles(): Promise<string[]> {
  const all: Record<string, string> = { ...networkVariables(), ...(await npmSettings()) };
  return CERTIFICATES.flatMap((name) => all[name] ?? []);
}

/** Looks up the addresses of the builds' registry and proxies, which may be private. */
export async function registryEndpoints(): Promise<Endpoint[]> {
  const { npm_config_registry, npm_config_proxy, npm_config_https_proxy } = await npmSettings();
  const { HTTP_PROXY, HTTPS_PROXY, http_proxy, https_proxy } = networkVariables();
  const named = [npm_config_registry, npm_config_proxy, npm_config_https_proxy];
  const all = [...named, HTTP_PROXY, HTTPS_PROXY, http_proxy, https_proxy].filter((url) => url !== undefined);
  return (await Promise.all([...new Set(all)].map(endpoints))).flat();
}

/** Returns the addresses of a URL's host; empty when the text is not a URL, or its host is unknown. */
async function endpoints(text: string): Promise<Endpoint[]> {
  // A proxy may have no scheme.
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (url === null) return [];
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  const found = await lookup(url.hostname.replace(/^\[|\]$/g, ''), { all: true }).catch(() => []);
  return found.map(({ address }) => ({ address, port }));
}

function definedVariables(): Record<string, string> {
  const defined = Object.entries(process.env).filter(([, value]) => value !== undefined);
  return Object.fromEntries(defined) as Record<string, string>;
}
