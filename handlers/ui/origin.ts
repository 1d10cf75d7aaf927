// Checks the origin of requests. Apps are on the same site as the control UI, so browsers send the control UI's cookies also
// with requests of apps' pages.
import { Problem } from '../problem.ts';
import { requireDataDestination } from '../transports/destination.ts';

/**
 * Refuses requests from other origins, changes of unknown origin, and requests whose response a page would run or embed.
 * @param env this server's origin, and the API's URL, which the error message names
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
      `Only pages of ${origin} may use this address; programs use the API at ${api}.`,
    );
  }
}

/**
 * Returns whether a request is a navigation, as when a provider redirects a person back. Scripts cannot read its response.
 */
export function isNavigation({ method, headers }: Request): boolean {
  const mode = headers.get('sec-fetch-mode');
  return method === 'GET' && (mode === null || mode === 'navigate') && !headers.has('origin');
}

/**
 * Returns the request's cookies that belong to this server. Drops a cookie whose name occurs twice: an app on the same site
 * has set one of the two, and it is not known which.
 * @param prefix the prefix of the names of our cookies
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
