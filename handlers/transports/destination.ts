// Limits how browsers may use responses of the API. Objects, values and files contain untrusted content of apps. A page must
// not load such content as a script, worker or style, or in a frame.
import { Problem } from '../problem.ts';

/** Values of `Sec-Fetch-Dest` with which a browser treats a response as data: fetches by scripts, downloads and media. */
const DATA = new Set(['empty', 'document', 'image', 'audio', 'video']);

/**
 * Refuses requests whose response a browser would run or embed, by `Sec-Fetch-Dest`. Other programs do not send this header.
 * @throws {Problem} `forbidden`
 */
export function requireDataDestination({ headers }: Request): void {
  const destination = headers.get('sec-fetch-dest');
  if (destination === null || DATA.has(destination)) return;
  throw new Problem('forbidden', `The API returns data for programs. No page may load it as ${destination}.`);
}
