// What browsers may make of an answer of the API. Objects, values and files have whatever an app's code wrote: none of it may
// run as a script, worker or style of the origin that it came from, or stand in a frame of it.
import { Problem } from '../problem.ts';

/** Values of `Sec-Fetch-Dest` that take an answer as data: calls of scripts, downloads, and media. */
const DATA = new Set(['empty', 'document', 'image', 'audio', 'video']);

/**
 * Refuses what a browser would run or embed. Programs do not send the header.
 * @throws {Problem} `forbidden`
 */
export function requireDataDestination({ headers }: Request): void {
  const destination = headers.get('sec-fetch-dest');
  if (destination === null || DATA.has(destination)) return;
  throw new Problem('forbidden', `The API answers with data. No page may load it as ${destination}.`);
}
