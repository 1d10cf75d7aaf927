// A gateway backend at an address of this machine.
import type { Backend } from '../edge/upstream/backend.ts';
import { Upstream } from '../edge/upstream/upstream.ts';
import type { UpstreamAddress } from '../edge/upstream/upstream-connection.ts';

/** Returns a backend for an address. A drain does not wait for its event streams. */
export function backendAt(address: UpstreamAddress, site: string): Backend {
  const upstream = new Upstream(address);
  return { site, streamsForEver: true, admit: () => ({ kind: 'forward', upstream }) };
}
