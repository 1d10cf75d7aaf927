// The entry of every Worker: the app's own, with a count of the work that goes on after its answers.
import { WorkerEntrypoint } from 'cloudflare:workers';
import * as app from 'cellar-app-entry';

export * from 'cellar-app-entry';

/** Workers end such work after so long. */
const LIMIT_MS = 30_000;
const pending = new Set();
let counting = false;

/** Counts what `waitUntil` is given from now on. All contexts have it from one prototype, which only a context tells. */
function count(context) {
  counting = true;
  const shared = Object.getPrototypeOf(context);
  const { waitUntil } = shared;
  shared.waitUntil = function (promise) {
    const work = { since: Date.now() };
    const end = () => pending.delete(work);
    pending.add(work);
    Promise.resolve(promise).then(end, end);
    return waitUntil.call(this, promise);
  };
}

/** Answers the host with the number of pieces of work under way. */
export class CellarState extends WorkerEntrypoint {
  fetch() {
    for (const work of pending) if (Date.now() - work.since > LIMIT_MS) pending.delete(work);
    return new Response(String(pending.size));
  }
}

/** What `caches` asks: nothing is kept, so that nothing is found, which the Cache API allows at any time. */
export class CellarCache extends WorkerEntrypoint {
  async fetch({ method, body }) {
    if (method === 'GET') return new Response(null, { status: 504, headers: { 'cf-cache-status': 'MISS' } });
    if (method === 'PURGE') return new Response(null, { status: 404 });
    await body?.pipeTo(new WritableStream());
    return new Response(null, { status: 204 });
  }
}

/** The app's handlers, whether an object's, an instance's or a `WorkerEntrypoint`'s. */
function counted(main) {
  if (typeof main === 'function') {
    return class extends main {
      constructor(context, env) {
        if (!counting) count(context);
        super(context, env);
      }
    };
  }
  return new Proxy(main ?? {}, {
    get(target, name) {
      const handler = target[name];
      if (typeof handler !== 'function') return handler;
      return (event, env, context) => {
        if (!counting) count(context);
        return handler.call(target, event, env, context);
      };
    },
  });
}

export default counted(app.default);
