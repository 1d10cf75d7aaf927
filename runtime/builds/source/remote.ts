// How git reaches a repository on another server: only by the transport of its URL (HTTPS or SSH), and only at addresses
// that the host looked up and allowed before.
import { lookup } from 'node:dns/promises';
import { writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { BuildFailure } from '../../../bundler/failure.ts';
import type { Remote } from '../../../handlers/contract/source/remote.ts';
import { VERSION_ORDER } from '../../git/named-commit.ts';
import type { PublicAddresses } from '../../isolation/private-networks.ts';
import { quote } from '../../processes/shell.ts';

/** Minimum rate over HTTPS, in `bytes` per second. git aborts a fetch that is slower for this many `seconds`. */
const SLOW = { bytes: 1_000, seconds: 30 };
/** Seconds until SSH gives up connecting, and between its keepalive messages. */
const SSH = { connectS: 20, aliveS: 10 };
/**
 * Git's settings for each repository on another server: no transport (`settingsFor` allows one), and no stored credentials.
 */
const ALWAYS = {
  'protocol.allow': 'never',
  'credential.helper': '',
  'transfer.bundleURI': 'false',
  ...VERSION_ORDER,
};

export interface Credentials {
  /** In the format of OpenSSH; null for none. Not used for HTTPS. */
  privateKey: string | null;
  /** Lines of SSH's known hosts. Empty: the server's key is accepted and kept at the first use. */
  knownHosts: string[];
  /** git sends it over HTTPS; null for none. */
  token: string | null;
}

/** Name of SSH's file with the keys of servers, in the home of the fetch. */
export const KNOWN_HOSTS = 'known_hosts';
/** Name of SSH's file with the private key, in the home of the fetch. */
const IDENTITY = 'identity';

/** Looks up a host. Returns those of its addresses that imports may reach. @throws {BuildFailure} when there are none */
export async function addressesOf(
  { host }: Pick<Remote, 'host'>,
  reachable: PublicAddresses,
): Promise<string[]> {
  const found = await lookup(host, { all: true }).catch(() => {
    throw new BuildFailure(`the host ${host} cannot be found; correct the URL`);
  });
  const left = found.map(({ address }) => address).filter((address) => reachable.has(address));
  if (left.length === 0)
    throw new BuildFailure(
      `${host} is not a public address; the operator can let imports reach it (RUNNER_EGRESS_ALLOW)`,
    );
  return left;
}

/** Returns git's settings for a repository: only its transport, and for HTTPS only these addresses, without redirects. */
export function settingsFor(
  { kind, url, host, port }: Remote,
  addresses: string[],
  token: string | null,
): Record<string, string> {
  if (kind === 'ssh') return { ...ALWAYS, 'protocol.ssh.allow': 'always' };
  const pinned = addresses.map((address) => (isIP(address) === 6 ? `[${address}]` : address)).join(',');
  const named = isIP(host) === 6 ? `[${host}]` : host;
  // Other hosts take any user beside a token.
  const user = host === 'bitbucket.org' ? 'x-token-auth' : 'oauth2';
  const basic = token === null ? null : Buffer.from(`${user}:${token}`, 'utf8').toString('base64');
  return {
    ...ALWAYS,
    'protocol.https.allow': 'always',
    'http.followRedirects': 'false',
    'http.curloptResolve': `${named}:${port}:${pinned}`,
    'http.proxy': '',
    'http.lowSpeedLimit': String(SLOW.bytes),
    'http.lowSpeedTime': String(SLOW.seconds),
    ...(basic !== null && { [`http.${url}.extraHeader`]: `Authorization: Basic ${basic}` }),
  };
}

/** Writes the files of SSH into `home`. @returns their paths */
export function writeSshFiles(home: string, { privateKey, knownHosts }: Credentials): string[] {
  const identity = join(home, IDENTITY);
  const known = join(home, KNOWN_HOSTS);
  writeFileSync(identity, privateKey ?? '', { mode: 0o600 });
  writeFileSync(known, knownHosts.map((line) => `${line}\n`).join(''), { mode: 0o600 });
  return [identity, known];
}

/**
 * Returns the variables with which git runs SSH: at this address, with the key and the known hosts in `home`, and without
 * SSH configuration, agents or keys of this machine.
 * @param isPinned whether the server's key is known; otherwise the first key is accepted
 */
export function sshVariables(home: string, { host }: Remote, [address]: string[], isPinned: boolean) {
  const options = {
    IdentityFile: join(home, IDENTITY),
    IdentitiesOnly: 'yes',
    IdentityAgent: 'none',
    BatchMode: 'yes',
    PreferredAuthentications: 'publickey',
    StrictHostKeyChecking: isPinned ? 'yes' : 'accept-new',
    UserKnownHostsFile: join(home, KNOWN_HOSTS),
    GlobalKnownHostsFile: '/dev/null',
    HashKnownHosts: 'no',
    UpdateHostKeys: 'no',
    CheckHostIP: 'no',
    HostName: address!,
    HostKeyAlias: host,
    ConnectTimeout: String(SSH.connectS),
    ServerAliveInterval: String(SSH.aliveS),
    ForwardAgent: 'no',
    ClearAllForwardings: 'yes',
    ProxyCommand: 'none',
    PermitLocalCommand: 'no',
    ControlPath: 'none',
    LogLevel: 'ERROR',
  };
  const words = Object.entries(options).flatMap(([key, value]) => ['-o', quote(`${key}=${value}`)]);
  return { GIT_SSH_COMMAND: `ssh -F /dev/null ${words.join(' ')}`, GIT_SSH_VARIANT: 'ssh' };
}

/** Returns why git failed, for the person who requested it; null when it does not say. */
export function explanation(lines: string[], { host }: Remote): string | null {
  const said = lines.join('\n');
  if (/could not read Username|Authentication failed/.test(said))
    return 'there is no public repository at this address; connect a private one with a token that may read it';
  if (/returned error: 30\d|redirect/.test(said))
    return 'the server redirects to another address: use that address; often it is the same with `.git` at its end';
  if (/Host key verification failed|HOST IDENTIFICATION HAS CHANGED/.test(said))
    return `the key of the SSH server ${host} has changed since the first fetch; if the new key is right, disconnect the repository and connect it again`;
  if (/No user exists for uid/.test(said))
    return 'SSH cannot run, because the user that runs Cellar has no name in /etc/passwd; the operator can add it there, or use an HTTPS address';
  if (/Permission denied \(/.test(said))
    return `${host} does not accept the deploy key; add it to the repository's deploy keys, for reading`;
  const fatal = lines.findLast((line) => line.startsWith('fatal: '))?.slice('fatal: '.length);
  return fatal ?? null;
}
