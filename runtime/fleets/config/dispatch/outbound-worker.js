// Adds a header to a script's outgoing requests, so that the outbound Worker gets the parameters of the call of the script.
// Without the header, a request still goes to the outbound Worker, but without parameters.
import { AsyncLocalStorage } from 'node:async_hooks';

/** The header that names the call of the script. The host sends it with the call, and reads it in outgoing requests. */
const OUTBOUND_HEADER = 'x-cellar-outbound';

/** workerd's own globals, taken before the app can replace them. */
const { fetch, Request } = globalThis;
const calls = new AsyncLocalStorage();

globalThis.fetch = {
  fetch(input, init) {
    const call = calls.getStore();
    if (call === undefined) return fetch(input, init);
    const request = new Request(input, init);
    request.headers.set(OUTBOUND_HEADER, call);
    return fetch(request);
  },
}.fetch;

/** Runs a handler for the call that the request names. The handler's request is without the header. */
function run(request, handle) {
  const call = request.headers.get(OUTBOUND_HEADER);
  if (call === null) return handle(request);
  const passed = new Request(request);
  passed.headers.delete(OUTBOUND_HEADER);
  return calls.run(call, () => handle(passed));
}

/** Wraps a default export so that its `fetch()` runs for the call that the request names. */
export function withOutbound(main) {
  if (typeof main === 'function') {
    if (typeof main.prototype?.fetch !== 'function') return main;
    return class extends main {
      fetch(request) {
        return run(request, (passed) => super.fetch(passed));
      }
    };
  }
  if (typeof main?.fetch !== 'function') return main;
  const value = (request, env, context) => run(request, (passed) => main.fetch(passed, env, context));
  return Object.create(main, { fetch: { value } });
}
