// Checks the origin of requests. Apps are on the same site, so browsers send this origin's cookies with requests that apps
// make.
import { Problem } from '../problem.ts';
import { requireDataDestination } from '../transports/destination.ts';

/**
 * Refuses requests from other origins, changes of unknown origin, and loads that would run in a page.
 * @param env this server's origin, and the API's URL for the message to a program
 * @throws {Problem} `forbidden`
 */
export function requireOwnOrigin(
  request: Request,
  { PUBLIC_UI_URL: origin, PUBLIC_API_URL: api }: { PUBLIC_UI_URL: string; PUBLIC_API_URL: string },
): void {
  requireDataDestination(request);
  const site = request.headers.get('sec-fetch-site');
  const from = request.headers.get('origin');
  const isForeign =
    (site !== null && site !== 'same-origin' && site !== 'none') || (from !== null && from !== origin);
  const reads = request.method === 'GET' || request.method === 'HEAD';
  if (isForeign || (!reads && from === null && site !== 'same-origin')) {
    throw new Problem(
      'forbidden',
      `Only pages of ${origin} may ask this here; programs use the API at ${api}.`,
    );
  }
}

/** Whether a request is a navigation, as when a provider sends a person back. It cannot be read or made by a script. */
export function isNavigation({ method, headers }: Request): boolean {
  const mode = headers.get('sec-fetch-mode');
  return method === 'GET' && (mode === null || mode === 'navigate') && !headers.has('origin');
}

/**
 * Returns the request's cookies that belong to this server. Drops a cookie that occurs twice: an app of this site has set one
 * of them, and they cannot be told apart.
 * @param prefix of our cookies' names
 */
export function ownCookies(header: string | null, prefix: string): string {
  const found = new Map<string, string[]>();
  for (const pair of (header ?? '').split(';')) {
    const name = pair.split('=', 1)[0]!.trim();
    if (name.startsWith(prefix)) found.set(name, [...(found.get(name) ?? []), pair.trim()]);
  }
  return [...found.values()]
    .filter((pairs) => pairs.length === 1)
    .flat()
    .join('; ');
}
