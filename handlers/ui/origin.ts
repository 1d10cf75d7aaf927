// Apps live on the same site, and browsers send cookies to this origin for what they ask: so every request has to say that it
// comes from here.
import { Problem } from '../problem.ts';
import { requireDataDestination } from '../transports/destination.ts';

/**
 * Refuses what another origin makes a browser send, changes of which nobody says where they come from, and what would run in a
 * page.
 * @param env with this server's origin, and the API's address for a program that came here
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

/**
 * The cookies of a request that are this server's own. One that comes twice is left out: an app of this site has set
 * the other, and nobody can tell them apart.
 * @param prefix what the names of ours begin with
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
