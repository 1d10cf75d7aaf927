// Answers calls of this app's exports by other apps of its owner. The host names the export and the caller.

import { RpcTarget } from 'cloudflare:workers';
import { calledBy } from './cellar-capture.js';

/** The header with the call as JSON. Written by the host. */
export const CALL_HEADER = 'x-cellar-call';

/** Exports for the host only. */
const HIDDEN = ['CellarState', 'CellarCache'];

/** Methods of an export, by name. */
class Methods extends RpcTarget {
  #target;

  constructor(target) {
    super();
    this.#target = target;
  }

  call(name, values) {
    return this.#target[name](...calledBy(name, values));
  }
}

/** @param exports the Worker's, as in its context */
export async function answerCall(request, exports) {
  const { kind, entrypoint, props } = JSON.parse(request.headers.get(CALL_HEADER));
  const name = entrypoint ?? 'default';
  const isThere = exports !== undefined && Object.hasOwn(exports, name) && !HIDDEN.includes(name);
  const found = isThere ? exports[name] : undefined;
  if (typeof found?.fetch !== 'function') return refusal(`The app has no entrypoint ${name}.`);
  const target = props === undefined ? found : found({ props });
  if (kind === 'fetch') {
    const passed = new Request(request);
    passed.headers.delete(CALL_HEADER);
    return target.fetch(passed);
  }
  const capnweb = await import('./cellar-capnweb.js').catch(() => null);
  if (capnweb === null) return refusal(`The entrypoint ${name} of the app has no methods.`);
  return capnweb.newWorkersWebSocketRpcResponse(request, new Methods(target));
}

function refusal(detail) {
  return Response.json({ detail, code: 'entrypoint_not_found' }, { status: 404 });
}
