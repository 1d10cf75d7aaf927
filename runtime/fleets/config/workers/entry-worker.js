// The entry of every Worker. All calls of the app's code pass `wrap`: the default export, and each class and object that the
// release names. The entry counts work after answers, and reports errors to the host.

// First, so that the app's code already finds the wrapped `console` when it loads.
import './cellar-capture.js';

import { env, WorkerEntrypoint } from 'cloudflare:workers';
import * as app from 'cellar-app-entry';
import { answerCall, CALL_HEADER } from './cellar-called.js';
import { enter, expectCalls, expectCallsBy, guardInstance, imported } from './cellar-capture.js';
import { ManualRun, report, reported } from './cellar-error-reporter.js';
import { eventOf, isInEvent, keepEvent } from './cellar-events.js';

export * from 'cellar-app-entry';

/** Workflow instances that are resumed at a time. */
const RESUMED_AT_ONCE = 10;
/** Longest time that `waitUntil` work counts, in ms. On Cloudflare it is ended after this time. */
const LIMIT_MS = 30_000;
/**
 * Longest time that a manual cron run keeps the process, in ms: workerd's `cron.js` has the same limit for scheduled runs.
 */
const RUN_LIMIT_MS = 600_000;
/** Longest time that an e-mail keeps the process, in ms. */
const EMAIL_LIMIT_MS = 120_000;
/** The value of the call's header for an e-mail. */
const EMAIL_CALL = '{"kind":"email"}';
/** How the value of the call's header begins for a TCP connection. */
const TCP_CALL = '{"kind":"tcp",';
/** Time after which the host is told that a manual cron run still goes on, in ms. */
const RUN_ANSWER_MS = 10_000;
/** Work that has not ended, such as `waitUntil` tasks and Workflow steps. */
const pending = new Set();
/** The prototypes of contexts whose `waitUntil` is counted: one for requests, one for objects. */
const counting = new Set();

/** Counts later `waitUntil` calls. All contexts of a kind share one prototype, which only an instance reveals. */
function count(context) {
  const shared = Object.getPrototypeOf(context);
  if (counting.has(shared)) return;
  counting.add(shared);
  const { waitUntil, blockConcurrencyWhile } = shared;
  shared.waitUntil = function (promise) {
    countWork(promise);
    return waitUntil.call(this, promise);
  };
  if (blockConcurrencyWhile === undefined) return;
  shared.blockConcurrencyWhile = function (call) {
    // A constructor runs outside of events.
    const begin = isInEvent() ? call : () => enter('blockConcurrencyWhile', call, undefined, []);
    return blockConcurrencyWhile.call(this, begin);
  };
}

/**
 * Counts work until it ends, or for `limitMs`.
 * @param isStep whether it is a Workflow step
 * @returns a function that ends it
 */
function begin(limitMs, isStep = false) {
  const work = { until: Date.now() + limitMs, isStep };
  pending.add(work);
  return () => pending.delete(work);
}

function countWork(promise, limitMs = LIMIT_MS) {
  const endWork = begin(limitMs);
  const leave = keepEvent();
  const end = () => {
    endWork();
    leave();
  };
  Promise.resolve(promise).then(end, (error) => {
    end();
    report(error, 'waitUntil');
  });
}
imported.waitUntil = (promise) => countWork(promise);

/** Writes that the host makes for the app's owner, through the app's bindings. */
const writes = {
  async kv(namespace, { key, value, expiration, metadata }) {
    if (value === null) await namespace.delete(key);
    else
      await namespace.put(key, value, {
        metadata,
        ...(expiration !== null && { expiration }),
      });
  },
  /** Makes or changes an instance of a Workflow, and returns its new state. */
  async workflow(workflow, { action, instance, params, type, payload, options }) {
    const made =
      action === 'create' && (await workflow.create({ ...(instance !== null && { id: instance }), params }));
    const found = made || (await workflow.get(instance));
    if (action === 'send_event') await found.sendEvent({ type, payload });
    else if (action !== 'create') await found[action](options);
    return action === 'delete' ? null : { id: found.id, status: (await found.status()).status };
  },
  /** Reading an instance that should run, but does not, makes workerd's Workflows engine run it. */
  async resume(workflow, { instances }) {
    const ids = instances.values();
    const next = async () => {
      for (const id of ids) await workflow.get(id).catch(() => {});
    };
    await Promise.all(Array.from({ length: RESUMED_AT_ONCE }, next));
  },
};

/** The Worker's handlers: an object, or an instance of its class. */
function handlersOf(env, context) {
  return typeof main === 'function' ? new main(context, env) : main;
}

/** Returns a function that calls the Worker's `tail()`; undefined for a Worker without it. */
function tailOf(env, context) {
  const handlers = typeof main === 'function' ? main.prototype : main;
  if (typeof handlers.tail !== 'function') return undefined;
  return async (events) => handlersOf(env, context).tail(events, env, context);
}

/** Returns a function that calls the Worker's `fetch()` as the outbound Worker of a script. */
function outboundOf(env, context) {
  return async (request, parameters) => {
    const given = { ...env, ...parameters };
    return handlersOf(given, context).fetch(request, given, context);
  };
}

/** Manual cron runs under way. */
const running = new Set();

/** Runs a cron now. @returns its result, or that it still runs */
async function runCron(cron, env, context) {
  if (running.has(cron)) throw new Error('a run that was asked for before has not ended');
  running.add(cron);
  const run = new ManualRun(cron);
  const handlers = handlersOf(env, context);
  const call = async () => {
    try {
      await handlers.scheduled(run, env, context);
    } catch (error) {
      // Already reported, unless there is no such handler.
      ManualRun.end(run, { cron, outcome: 'failed', duration_ms: 0, error: error.message, trace_id: null });
    } finally {
      running.delete(cron);
    }
  };
  countWork(call(), RUN_LIMIT_MS);
  context.waitUntil(run.ended);
  const goesOn = scheduler.wait(RUN_ANSWER_MS).then(() => null);
  const result = await Promise.race([run.ended, goesOn]);
  return result ?? { cron, outcome: 'running', duration_ms: null, error: null, trace_id: null };
}

/** Passes an e-mail to the app's `email()` handler. The host's receiver sends it over the WebSocket of the answer. */
async function receiveEmail(env, context) {
  const { answerEmail } = await import('./cellar-email.js');
  const handlers = handlersOf(env, context);
  const hasHandler = typeof handlers.email === 'function';
  const call = async (message) => handlers.email(message, env, context);
  const { response, done } = answerEmail(hasHandler ? call : null);
  countWork(done, EMAIL_LIMIT_MS);
  context.waitUntil(done);
  return response;
}

/** Passes a TCP connection to the app's `connect()` handler. The host's relay copies it over the WebSocket of the answer. */
async function receiveConnection(call, env, context) {
  const { answerConnection } = await import('./cellar-tcp.js');
  const handlers = handlersOf(env, context);
  const hasHandler = typeof handlers.connect === 'function';
  const connect = async (socket) => handlers.connect(socket, env, context);
  const { response, done } = answerConnection(JSON.parse(call), hasHandler ? connect : null);
  context.waitUntil(done);
  return response;
}

async function write(request, env, context) {
  try {
    const { kind, binding, ...asked } = await askedOf(request);
    if (kind === 'cron') return Response.json({ done: await runCron(asked.cron, env, context) });
    return Response.json({ done: (await writes[kind](env[binding], asked)) ?? null });
  } catch (error) {
    await drain(request);
    return Response.json({ failed: String(error.message).slice(0, 2000) });
  }
}

/** Returns what the host asks for: JSON, or a value as the body and the rest of the JSON in the query. */
async function askedOf(request) {
  if (request.method !== 'PUT') return request.json();
  const { searchParams } = new URL(request.url);
  return { ...JSON.parse(searchParams.get('asked')), value: request.body ?? '' };
}

/** Reads the rest of a refused body: workerd would close the connection before the host has the answer. */
async function drain({ body }) {
  try {
    await body?.pipeTo(new WritableStream());
  } catch {
    // The body was already read, or the connection has broken off.
  }
}

/**
 * Answers the host only. Forwards other apps' calls; a POST or PUT is a write or a cron run. A GET returns the number of
 * pending tasks; at `/steps`, of those in Workflow steps.
 */
export class CellarState extends WorkerEntrypoint {
  fetch(request) {
    const call = request.headers.get(CALL_HEADER);
    if (call === EMAIL_CALL) return receiveEmail(this.env, this.ctx);
    if (call?.startsWith(TCP_CALL)) return receiveConnection(call, this.env, this.ctx);
    if (call !== null) return this.#answer(request);
    if (request.method !== 'GET') return write(request, this.env, this.ctx);
    for (const work of pending) if (Date.now() > work.until) pending.delete(work);
    const { pathname } = new URL(request.url);
    const asked = pathname === '/steps' ? [...pending].filter(({ isStep }) => isStep) : [...pending];
    return new Response(String(asked.length));
  }

  #answer(request) {
    const { env, ctx } = this;
    return answerCall(request, ctx.exports, { tail: tailOf(env, ctx), outbound: outboundOf(env, ctx) });
  }
}

/** Used by `caches` when there is no cache, as on trial. It stores and finds nothing, which the Cache API allows. */
export class CellarCache extends WorkerEntrypoint {
  async fetch({ method, body }) {
    if (method === 'GET') return new Response(null, { status: 504, headers: { 'cf-cache-status': 'MISS' } });
    if (method === 'PURGE') return new Response(null, { status: 404 });
    await body?.pipeTo(new WritableStream());
    return new Response(null, { status: 204 });
  }
}

/** Wraps an export of the app: a class, an object of handlers, or neither. */
function wrap(main) {
  if (typeof main === 'function') return wrapClass(main);
  return typeof main === 'object' && main !== null ? wrapHandlers(main) : main;
}

/** Wraps a class. The app sees its class and instances unchanged. workerd gets each instance with guarded methods. */
function wrapClass(main) {
  expectCalls(main);
  return new Proxy(main, {
    construct(target, values) {
      count(values[0]);
      try {
        return guardInstance(target.name, Reflect.construct(target, values));
      } catch (error) {
        report(error, 'uncaught', eventOf(`new ${target.name}`));
        throw error;
      }
    },
  });
}

/**
 * Wraps the handlers of an object or instance. The proxy's target is another object: a proxy of a frozen object must return
 * its properties unchanged.
 * @param others used for handlers that the object lacks
 */
function wrapHandlers(main, others = {}) {
  return new Proxy(Object.create(main), {
    get(_, name) {
      const own = main[name];
      if (typeof own !== 'function') return others[name] ?? own;
      const handler = reported(name, own);
      return (event, env, context) => {
        count(context);
        return enter(name, handler, main, [event, env, context]);
      };
    },
  });
}

/** Answers requests to an app without `fetch`, such as one with crons only. A 404 is not an error of the app. */
const NO_FETCH = {
  fetch: () =>
    new Response('This app answers no requests: its Worker has no fetch() handler.\n', {
      status: 404,
      headers: { 'cache-control': 'no-store' },
    }),
};

/** Wraps the default export and ensures a `fetch`. workerd calls no functions except entrypoints. */
function wrapDefault(main) {
  if (typeof main === 'function' && main.prototype instanceof WorkerEntrypoint) {
    if (!('fetch' in main.prototype)) Object.assign(main.prototype, NO_FETCH);
    return wrap(main);
  }
  return wrapHandlers(typeof main === 'object' && main !== null ? main : {}, NO_FETCH);
}

const main = wrapDefault(app.default);
export default main;

/** Service bindings, and whether each leads to the app itself. Filled in by the host. */
const SERVICES = [];
for (const [binding, isOwn] of SERVICES) expectCallsBy(env[binding], isOwn);
