// Cellar's entry module of every app's Worker. It wraps the default export, and each class and object that the release
// names. It counts work after answers, and reports errors to the host.

// The first import, because it wraps `console`, which the app's code may use while it loads.
import './cellar-capture.js';

import { env, WorkerEntrypoint } from 'cloudflare:workers';
import * as app from 'cellar-app-entry';
import { answerCall, CALL_HEADER } from './cellar-called.js';
import { enter, expectCalls, expectCallsBy, guardInstance, imported } from './cellar-capture.js';
import { ManualRun, report, reported } from './cellar-error-reporter.js';
import { eventOf, isInEvent, keepEvent } from './cellar-events.js';

export * from 'cellar-app-entry';

/** Number of Workflow instances that are resumed at once. */
const RESUMED_AT_ONCE = 10;
/** Longest time that a `waitUntil` task counts as pending, in ms. Cloudflare ends it after this time. */
const LIMIT_MS = 30_000;
/** Longest time that a manual cron run counts as pending, in ms: as long as workerd's `cron.js` allows a scheduled run. */
const RUN_LIMIT_MS = 600_000;
/** Longest time that the handling of an e-mail counts as pending, in ms. */
const EMAIL_LIMIT_MS = 120_000;
/** The value of `CALL_HEADER` for an e-mail. */
const EMAIL_CALL = '{"kind":"email"}';
/** The start of the value of `CALL_HEADER` for a TCP connection. */
const TCP_CALL = '{"kind":"tcp",';
/** Time after which a manual cron run is answered although it continues, in ms. */
const RUN_ANSWER_MS = 10_000;
/**
 * Tasks that have not ended, such as `waitUntil` tasks and Workflow steps. While there are any, the host keeps the process.
 */
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
    // A constructor runs outside of events, so its `blockConcurrencyWhile()` makes one.
    const begin = isInEvent() ? call : () => enter('blockConcurrencyWhile', call, undefined, []);
    return blockConcurrencyWhile.call(this, begin);
  };
}

/**
 * Adds a task to `pending`, for at most `limitMs`.
 * @param isStep whether the task is a Workflow step
 * @returns a function that ends the task
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

/** The host's actions on the app's bindings: writes of the app's owner, and the resumption of Workflows. */
const writes = {
  async kv(namespace, { key, value, expiration, metadata }) {
    if (value === null) await namespace.delete(key);
    else
      await namespace.put(key, value, {
        metadata,
        ...(expiration !== null && { expiration }),
      });
  },
  /** Creates, changes or deletes an instance of a Workflow. Returns its new state; null for a deleted one. */
  async workflow(workflow, { action, instance, params, type, payload, options }) {
    const made =
      action === 'create' && (await workflow.create({ ...(instance !== null && { id: instance }), params }));
    const found = made || (await workflow.get(instance));
    if (action === 'send_event') await found.sendEvent({ type, payload });
    else if (action !== 'create') await found[action](options);
    return action === 'delete' ? null : { id: found.id, status: (await found.status()).status };
  },
  /** Reads instances, which makes workerd's Workflows engine resume those that were interrupted. */
  async resume(workflow, { instances }) {
    const ids = instances.values();
    const next = async () => {
      for (const id of ids) await workflow.get(id).catch(() => {});
    };
    await Promise.all(Array.from({ length: RESUMED_AT_ONCE }, next));
  },
};

/** Returns the Worker's handlers: its default export, or an instance of it if it is a class. */
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

/** Expressions of the crons whose manual run has not ended. */
const running = new Set();

/** Runs a cron at once. @returns its result, or the outcome `running` after `RUN_ANSWER_MS` */
async function runCron(cron, env, context) {
  if (running.has(cron)) throw new Error('an earlier manual run of this cron has not ended');
  running.add(cron);
  const run = new ManualRun(cron);
  const handlers = handlersOf(env, context);
  const call = async () => {
    try {
      await handlers.scheduled(run, env, context);
    } catch (error) {
      // A `scheduled()` that threw has reported its result already. This result is for a Worker without `scheduled()`.
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

/** Returns the host's command. A POST has its JSON in the body. A PUT has it in the query, and the value in the body. */
async function askedOf(request) {
  if (request.method !== 'PUT') return request.json();
  const { searchParams } = new URL(request.url);
  return { ...JSON.parse(searchParams.get('asked')), value: request.body ?? '' };
}

/** Reads the rest of a refused body. Otherwise workerd would close the connection before the host has the answer. */
async function drain({ body }) {
  try {
    await body?.pipeTo(new WritableStream());
  } catch {
    // The body was already read, or the connection was lost.
  }
}

/**
 * Answers only the host. With `CALL_HEADER`, a request is a call by another app, an e-mail or a TCP connection. A POST or
 * PUT is one of `writes` or a cron run. A GET returns the number of pending tasks; at `/steps`, only that of Workflow steps.
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

/** Implements `caches` when there is no cache, as in a trial. It stores and finds nothing, which the Cache API allows. */
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

/**
 * Wraps a class, so that workerd gets each instance with methods that enter an event. The app's own class stays unchanged.
 */
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
 * Wraps the handlers of an object. The proxy's target is not the object itself, because a proxy of a frozen object must
 * return its properties unchanged.
 * @param others handlers for names that the object lacks
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

/**
 * Answers requests to an app without `fetch()`, such as one with crons only. A 404 does not count as an error of the app.
 */
const NO_FETCH = {
  fetch: () =>
    new Response('This app answers no requests: its Worker has no fetch() handler.\n', {
      status: 404,
      headers: { 'cache-control': 'no-store' },
    }),
};

/**
 * Wraps the default export, and adds `fetch()` if it is missing. If the default export is a function, workerd calls it only
 * if it is an entrypoint class.
 */
function wrapDefault(main) {
  if (typeof main === 'function' && main.prototype instanceof WorkerEntrypoint) {
    if (!('fetch' in main.prototype)) Object.assign(main.prototype, NO_FETCH);
    return wrap(main);
  }
  return wrapHandlers(typeof main === 'object' && main !== null ? main : {}, NO_FETCH);
}

const main = wrapDefault(app.default);
export default main;

/** Names of the service bindings, each with whether it leads to the app itself. The host fills in the list. */
const SERVICES = [];
for (const [binding, isOwn] of SERVICES) expectCallsBy(env[binding], isOwn);
