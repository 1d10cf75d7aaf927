// Addresses of repositories on other servers, such as GitHub: HTTPS or SSH, and no other transport of git.

/** A repository on another server. */
export interface Remote {
  kind: 'https' | 'ssh';
  /** In the form that git accepts, without credentials. */
  url: string;
  /** A name or an address, without brackets. */
  host: string;
  port: number;
}

const HOST = /^(?:[a-z\d](?:[a-z\d.-]*[a-z\d])?|\[[\da-f:.]+\])$/i;
const USER = /^[a-z_][\w.-]*$/i;
const PATH = /^\/[^\p{Cc}\s\\'"`$<>|]+$/u;
/** The short form of SSH: `git@host:path`. */
const SHORT = /^([^@/:]+)@([^/:@]+):(?!\/\/)(.+)$/;

/** Parses the address of a repository. Returns null unless it is HTTPS without credentials, or SSH without a password. */
export function parseRemote(text: string): Remote | null {
  const [, user, shortHost, path] = SHORT.exec(text) ?? [];
  const written = user === undefined ? text : `ssh://${user}@${shortHost}/${path!.replace(/^\//, '')}`;
  const url = URL.parse(written);
  if (url === null || url.password !== '' || url.search !== '' || url.hash !== '') return null;
  const isHttps = url.protocol === 'https:';
  if (!isHttps && url.protocol !== 'ssh:') return null;
  if (isHttps ? url.username !== '' : !USER.test(url.username || 'git')) return null;
  if (!HOST.test(url.hostname) || !PATH.test(url.pathname) || url.port === '0') return null;
  if (!isHttps && url.username === '') url.username = 'git';
  return {
    kind: isHttps ? 'https' : 'ssh',
    url: url.href,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || (isHttps ? 443 : 22)),
  };
}

/** Whether a `%` in an address is not the start of an escape of UTF-8. */
export function hasBrokenEscape(text: string): boolean {
  try {
    decodeURIComponent(text);
    return false;
  } catch {
    return true;
  }
}
