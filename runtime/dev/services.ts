// Answers the app's calls to Cellar in `cellar dev`: secrets of a Secrets Store, which `.dev.vars` has by binding name. Refuses
// messages to queues of other apps, so that dead letters stay in the app.
import type { StoreSecretBinding } from '../../bundler/release.ts';
import type { Gateway, RequestHead, Target } from '../edge/gateway.ts';
import { headerValue } from '../edge/http/head/fields.ts';
import { CALLING_HEADER } from '../edge/http/head/service-headers.ts';
import type { Refusal } from '../edge/refusals.ts';
import type { ServiceAccess } from '../fleets/process/service-access.ts';

const NO_APP: Refusal = {
  status: 404,
  code: 'service_not_found',
  detail: 'cellar dev runs the app of one folder, and no other app.',
};

/**
 * Returns the app's access to Cellar's services.
 * @param socket path at which the app's calls arrive
 * @param variables returns the variables of `.dev.vars`
 */
export function devServices(
  socket: string,
  gateway: () => Gateway,
  variables: () => Record<string, string>,
): ServiceAccess {
  let secrets: StoreSecretBinding[] = [];
  let listening: Promise<unknown> | null = null;
  const resolve = ({ headers }: RequestHead): Target => {
    const [way, number] = (headerValue(headers, CALLING_HEADER) ?? '').split(' ');
    const binding = way === 'secret' ? secrets[Number(number)] : undefined;
    if (binding === undefined) return { kind: 'respond', respond: () => ({ refusal: NO_APP }) };
    const value = variables()[binding.binding];
    const type = { 'content-type': 'text/plain; charset=utf-8' };
    const status = value === undefined ? 404 : 200;
    return { kind: 'respond', respond: () => ({ status, headers: type, body: value ?? '' }) };
  };
  return {
    hasOutbound: false,
    socket,
    open: async (calls) => {
      ({ secrets } = calls);
      if (secrets.length === 0 && calls.queues.length === 0) return;
      listening ??= gateway().listenService(socket, resolve);
      await listening;
    },
  };
}
