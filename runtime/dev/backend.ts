// Something on this machine that the gateway passes requests to.
import type { Backend } from '../edge/upstream/backend.ts';
import { Upstream } from '../edge/upstream/upstream.ts';
import type { UpstreamAddress } from '../edge/upstream/upstream-connection.ts';

/** What answers at an address. Its streams may go on for ever. */
export function backendAt(address: UpstreamAddress, site: string): Backend {
  const upstream = new Upstream(address);
  return { site, streamsForEver: true, admit: () => ({ kind: 'forward', upstream }) };
}
