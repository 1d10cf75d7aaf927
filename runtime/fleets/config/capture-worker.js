// What the app's code throws and prints, told to the host with the request it belongs to. It goes to the log, behind a
// mark. To the app nothing is different: the same values are returned, the same errors are thrown.

import {
  DurableObject,
  env,
  RpcTarget,
  ServiceStub,
  WorkerEntrypoint,
  WorkflowEntrypoint,
} from 'cloudflare:workers';
import { AsyncLocalStorage } from 'node:async_hooks';

/** Begins what is printed: then comes JSON for the host, one of two ends, and the text. */
const MARK = '\u001ecellar ';
const END = '\u001e';
/** The text has a blank before it that is none of its own. */
const END_WITH_BLANK = '\u001f';
/** Most characters of what an app chooses. The host bounds it again: an app can print anything. */
const MESSAGE_LENGTH = 4_000;
const STACK_LENGTH = 8_000;
const PATH_LENGTH = 1_000;
const PRINTED_LENGTH = 32_000;
/** Errors told in a second, and how many an app that threw none before may tell at once. */
const ERRORS_PER_S = 50;
const ERRORS_SAVED = 200;
/** Errors of other objects that are known again when they arrive where the object was called. */
const REMEMBERED = 50;
const CAUSES = 3;

const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The event that the running code belongs to: a request, a cron, a message, a call of an object's method. */
const frames = new AsyncLocalStorage();
const print = { ...console };
/** workerd's own: an app may put another in its place. */
const { Request } = globalThis;

/** The `traceparent` of an event: the one given to it, when it is one. It is looked at, or made, when it is first asked for: most events print nothing. */
function traceparentOf(frame) {
  if (!TRACEPARENT.test(frame.trace)) frame.trace = newTraceparent();
  return frame.trace;
}

function traceIdOf(frame) {
  return traceparentOf(frame).slice(3, 35);
}

/** The trace of the event that the running code belongs to. */
export function eventTraceId() {
  return traceIdOf(frames.getStore());
}

/** Also where no random bytes are to be had, as before the first event. */
function shortId() {
  return Math.random().toString(36).slice(2, 10);
}

/** Of the digits of two UUIDs, which come much faster than digits made of random bytes here. */
function newTraceparent() {
  const [trace, span] = [crypto.randomUUID(), crypto.randomUUID()];
  return `00-${trace.replaceAll('-', '')}-${span.slice(0, 8)}${span.slice(-8)}-00`;
}

/** The call that `begin` is to make. By these and not by values of its own, which `AsyncLocalStorage` copies at some cost. */
let called;
let receiver;
let values;

/**
 * @param handler for people, such as `fetch` or `Room.alarm`
 * @param given what the handler is given; of a request it says more
 */
export function eventOf(handler, given = null) {
  if (!(given instanceof Request)) return { handler, method: null, url: null, trace: null };
  // No more of the request is kept: what a store of AsyncLocalStorage holds survives V8's small collections, and whole
  // requests that wait for a large one cost more than reading these. The text of a method is another one each time.
  const { method, url, headers } = given;
  return { handler, method: method === 'GET' ? 'GET' : method, url, trace: headers.get('traceparent') };
}

/** What makes events that belong to the trace of the one under way. */
export function nestedEvent() {
  const outer = frames.getStore();
  return (handler) => {
    const frame = eventOf(handler);
    if (outer !== undefined) frame.trace = traceparentOf(outer);
    return frame;
  };
}

/** Calls a handler of the app for a new event. What it throws, at once or later, is told, and thrown on. */
export function enter(handler, call, self, given, frame = eventOf(handler, given[0])) {
  called = call;
  receiver = self;
  values = given;
  return frames.run(frame, begin);
}

/** Within the event, so that whatever fails later is told as of this event. */
function begin() {
  try {
    const result = Reflect.apply(called, receiver, values);
    // No other thenables: to ask one may have an effect.
    if (result instanceof Promise) result.then(guardGiven, tellUncaught);
    else guardGiven(result);
    return result;
  } catch (error) {
    tellUncaught(error);
    throw error;
  }
}

function tellUncaught(error) {
  tell(error, 'uncaught');
}

/** Prototypes of workerd's own. */
const builtIn = new Set(
  [Object, DurableObject, RpcTarget, WorkerEntrypoint, WorkflowEntrypoint].map(({ prototype }) => prototype),
);
/** Prototypes whose methods are guarded. */
const guarded = new Set();

/** The methods of a class that workerd may call, those of the classes that it extends too, each with whose it is. */
function* methodsOf(main) {
  for (let each = main.prototype; each && !builtIn.has(each); each = Object.getPrototypeOf(each))
    for (const [name, described] of Object.entries(Object.getOwnPropertyDescriptors(each)))
      if (name !== 'constructor') yield { owner: each, name, described };
}

function isGuardable({ value, configurable }) {
  return typeof value === 'function' && configurable;
}

/**
 * Has the methods of a class enter an event when workerd calls them; a call from within one is a call and no more. It is
 * done in place, so that its instances have the prototype that the app knows.
 */
export function guard(main) {
  if (guarded.has(main.prototype)) return;
  const before = new Set(guarded);
  for (const { owner, name, described } of methodsOf(main)) {
    guarded.add(owner);
    if (before.has(owner) || !isGuardable(described)) continue;
    const { value, ...rest } = described;
    Object.defineProperty(owner, name, { ...rest, value: guardedMethod(main.name, name, value) });
  }
  guarded.add(main.prototype);
}

function guardedMethod(className, name, method) {
  const handler = `${className}.${name}`;
  if (name === 'scheduled') method = toldRun(method);
  const { [name]: entering } = {
    [name](...values) {
      if (frames.getStore() !== undefined) return Reflect.apply(method, this, values);
      const carried = carriedBy(values.at(-1));
      if (carried !== null) values.pop();
      const frame = eventOf(handler, values[0]);
      const trace = carried ?? givenAway.get(this);
      if (trace !== undefined) frame.trace = trace;
      return enter(handler, method, this, values, frame);
    },
  };
  return Object.defineProperty(entering, 'length', { value: method.length, configurable: true });
}

/** The trace of the event that gave an object away whose methods are called from elsewhere. */
const givenAway = new WeakMap();

/** Has the methods of an object that the running event gives away enter events. */
function guardGiven(value) {
  if (!(value instanceof RpcTarget)) return;
  guard(value.constructor);
  givenAway.set(value, traceparentOf(frames.getStore()));
}

/** What `scheduled` is given for a run that somebody asks for, in place of workerd's own. */
export class ManualRun {
  type = 'scheduled';
  scheduledTime = Date.now();
  #ended = Promise.withResolvers();

  /** @param cron the expression */
  constructor(cron) {
    this.cron = cron;
  }

  /** What `crons.run` answers of it; settles when the run has ended, never rejects. */
  get ended() {
    return this.#ended.promise;
  }

  noRetry() {}

  static end(run, told) {
    if (#ended in run) run.#ended.resolve(told);
  }
}

/** A `scheduled` that tells the host of each run of a cron when it has ended. */
export function toldRun(scheduled) {
  return function (event, ...others) {
    const { cron } = event ?? {};
    // Some object's method of that name.
    if (typeof cron !== 'string' || typeof event.scheduledTime !== 'number')
      return Reflect.apply(scheduled, this, [event, ...others]);
    const frame = frames.getStore();
    const startedAt = Date.now();
    const end = (failure) => tellRun(event, frame, startedAt, failure);
    const fail = (error) => end(cut(wordsOf(error), MESSAGE_LENGTH));
    try {
      const result = Reflect.apply(scheduled, this, [event, ...others]);
      if (result instanceof Promise) result.then(() => end(null), fail);
      else end(null);
      return result;
    } catch (error) {
      fail(error);
      throw error;
    }
  };
}

/** @param failure why it failed; null when it did not */
function tellRun(event, frame, startedAt, failure) {
  const run = {
    cron: event.cron,
    trigger: event instanceof ManualRun ? 'manual' : 'schedule',
    started_at: startedAt,
    duration_ms: Date.now() - startedAt,
    outcome: failure === null ? 'ok' : 'failed',
    error: failure,
  };
  const head = { run, ...(frame !== undefined && { trace_id: traceIdOf(frame) }) };
  const how = failure === null ? `ran for ${run.duration_ms} ms` : `failed after ${run.duration_ms} ms`;
  print[failure === null ? 'info' : 'warn'](`${marked(head, END)}cron ${event.cron} ${how}`);
  ManualRun.end(event, { ...run, trace_id: head.trace_id ?? null });
}

function wordsOf(error) {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return 'an error that cannot be shown';
  }
}

/** What is called by an app's import of the same name. */
export const imported = { waitUntil(_promise) {} };

/**
 * Begins the text that a call of an object's method has after the values of the app: then comes the `traceparent` of the
 * event that calls. An object in its place costs the call some µs more.
 */
const CARRIED = '\u001ecellar-traceparent ';

/** The trace that a value carries; null when it is one of the app's own. */
function carriedBy(value) {
  if (typeof value !== 'string' || !value.startsWith(CARRIED)) return null;
  const carried = value.slice(CARRIED.length);
  return TRACEPARENT.test(carried) ? carried : null;
}

/** Names that are no method's in some class: what is called there would get the carried trace as a value. */
const unsure = new Set();
const expected = new Set();

/**
 * Has calls of a class's methods, where it is one of Durable Objects or an entrypoint, carry the trace of the event that
 * makes them.
 */
export function expectCalls(main) {
  if (!(main.prototype instanceof DurableObject || main.prototype instanceof WorkerEntrypoint)) return;
  for (const { name, described } of methodsOf(main)) {
    if (!isGuardable(described)) {
      unsure.add(name);
      if (expected.delete(name)) delete ServiceStub.prototype[name];
    } else if (!unsure.has(name) && !(name in ServiceStub.prototype)) {
      expected.add(name);
      carry(name);
    }
  }
}

/** Stubs of the app's own classes, by the name of their class: an object, and an entrypoint among `ctx.exports`. */
const OWN_STUBS = ['DurableObject', 'LoopbackServiceStub'];
/** What the host binds. Where service bindings lead is known to `expectCallsBy`. */
const bindings = new Set(Object.values(env));

/** An entrypoint that was given `props` is a stub of no class of its own, as bindings are. */
function isOwnStub(stub) {
  if (Object.getPrototypeOf(stub) === ServiceStub.prototype) return !bindings.has(stub);
  return OWN_STUBS.includes(stub.constructor.name);
}

/** Puts a property of this name before those that stubs have for any name. */
function carry(name) {
  Object.defineProperty(ServiceStub.prototype, name, {
    configurable: true,
    get() {
      if (this === ServiceStub.prototype) return undefined;
      const method = methodOf(this, name);
      return typeof method === 'function' && isOwnStub(this) ? carryingMethod(method) : method;
    },
  });
}

/**
 * The method that a stub itself has for a name. It has one only while its prototype has nothing of that name: the stub
 * has no prototype for that long.
 */
function methodOf(stub, name) {
  const prototype = Object.getPrototypeOf(stub);
  Object.setPrototypeOf(stub, null);
  try {
    return stub[name];
  } finally {
    Object.setPrototypeOf(stub, prototype);
  }
}

function carryingMethod(method) {
  return frames.getStore() === undefined ? method : new Proxy(method, carrying);
}

/**
 * Has calls of methods by a service binding carry the trace of the event that makes them. Such a binding has a method for
 * any name, while nothing else answers to that name.
 * @param isOwn whether it leads to the app itself, whose classes are known here; another app looks by `calledBy`
 */
export function expectCallsBy(service, isOwn) {
  const stubs = ServiceStub.prototype;
  if (service === undefined || Object.getPrototypeOf(service) !== stubs) return;
  const before = new Proxy(Object.create(stubs), {
    get(target, name, receiver) {
      if (typeof name === 'symbol' || (name in target && !expected.has(name)))
        return Reflect.get(target, name, receiver);
      const method = methodOf(service, name);
      const carries = typeof method === 'function' && (!isOwn || expected.has(name));
      return carries ? carryingMethod(method) : method;
    },
  });
  Object.setPrototypeOf(service, before);
}

/** The values of a call by another app: without the trace where no method takes it off. */
export function calledBy(name, values) {
  return expected.has(name) || carriedBy(values.at(-1)) === null ? values : values.slice(0, -1);
}

const carrying = {
  apply(method, _, values) {
    const frame = frames.getStore();
    for (const value of values) guardGiven(value);
    return method(...values, CARRIED + traceparentOf(frame));
  },
  get(method, name) {
    const value = method[name];
    return typeof value === 'function' ? value.bind(method) : value;
  },
};

/** Told once: by its own object, or by the words of an error that another object threw. */
const told = new WeakMap();
const thrown = new Map();
let left = ERRORS_SAVED;
let filledAt = 0;
let untold = 0;

/**
 * Tells the host of an error. Never throws.
 * @param mechanism how it was noticed
 * @param frame the event that it belongs to
 * @param printed prints what the app printed with it, with this JSON before it; null when it printed nothing
 * @returns whether it was told
 */
export function tell(error, mechanism, frame = frames.getStore(), printed = null) {
  try {
    if (!mayTell()) {
      untold++;
      return false;
    }
    const head = {
      error: { ...described(error), mechanism, ...(untold > 0 && { untold }), ...where(frame) },
    };
    if (frame !== undefined) head.trace_id = traceIdOf(frame);
    untold = 0;
    if (printed === null) print.error(marked(head, END) + (head.error.stack ?? head.error.message));
    else printed(textOf(head));
    return true;
  } catch {
    return false;
  }
}

function marked(head, end) {
  return MARK + textOf(head) + end;
}

/** JSON without a `%`, for `console` looks for those in the first text. */
function textOf(head) {
  return JSON.stringify(head).replaceAll('%', '\\u0025');
}

function mayTell() {
  const now = Date.now();
  left = Math.min(ERRORS_SAVED, left + ((now - filledAt) / 1000) * ERRORS_PER_S);
  filledAt = now;
  if (left < 1) return false;
  left--;
  return true;
}

function described(error) {
  if (!(error instanceof Error)) {
    const text = typeof error === 'object' && error !== null ? JSON.stringify(error) : String(error);
    return {
      id: idOf(error, text),
      type: typeof error,
      message: cut(text ?? 'undefined', MESSAGE_LENGTH),
      stack: null,
    };
  }
  const message = cut(String(error.message), MESSAGE_LENGTH);
  const type = cut(String(error.name), 200);
  return { id: idOf(error, `${type}: ${message}`), type, message, stack: stackOf(error) };
}

function stackOf(error) {
  let stack = '';
  for (let each = error, depth = 0; each instanceof Error && depth <= CAUSES; each = each.cause, depth++)
    stack += `${depth > 0 ? '\nCaused by: ' : ''}${cut(String(each.stack), STACK_LENGTH / 2)}`;
  return cut(stack, STACK_LENGTH);
}

/** The same for each time that one error is told: printed and thrown, thrown by an object and by who called it. */
function idOf(error, words) {
  if (error === null || typeof error !== 'object') return shortId();
  let id = told.get(error) ?? (error.remote === true ? thrown.get(words) : undefined);
  id ??= shortId();
  told.set(error, id);
  thrown.delete(words);
  thrown.set(words, id);
  if (thrown.size > REMEMBERED) thrown.delete(thrown.keys().next().value);
  return id;
}

function where(frame) {
  if (frame === undefined) return {};
  const { handler, method, url } = frame;
  if (url === null) return { handler };
  return { handler, method: cut(method, 20), path: cut(new URL(url).pathname, PATH_LENGTH) };
}

function cut(text, length) {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

for (const level of ['debug', 'error', 'info', 'log', 'warn']) {
  console[level] = {
    [level](...values) {
      const frame = frames.getStore();
      const error = level === 'error' ? values.find((value) => value instanceof Error) : undefined;
      for (let i = 0; i < values.length; i++)
        if (typeof values[i] === 'string') values[i] = cut(values[i], PRINTED_LENGTH);
      if (error !== undefined && tell(error, 'console', frame, (head) => printWith(level, head, values)))
        return;
      if (frame === undefined) print[level](...values);
      else printWith(level, `{"trace_id":"${traceIdOf(frame)}"}`, values);
    },
  }[level];
}

/** A first text may have places for the other values, as in `%s`: it stays the first. */
function printWith(level, head, values) {
  const isText = typeof values[0] === 'string';
  if (isText) values[0] = MARK + head + END + values[0];
  else values.unshift(MARK + head + END_WITH_BLANK);
  print[level](...values);
}

const { fetch } = ServiceStub.prototype;
/** A request to an object, or to the app itself, belongs to the trace of the one that it is made for. */
ServiceStub.prototype.fetch = {
  fetch(input, init) {
    const frame = frames.getStore();
    if (
      frame === undefined ||
      (init === undefined && input instanceof Request && input.headers.has('traceparent'))
    )
      return fetch.call(this, input, init);
    if (init === undefined && typeof input === 'string')
      return fetch.call(this, input, { headers: { traceparent: traceparentOf(frame) } });
    const request = new Request(input, init);
    if (!request.headers.has('traceparent')) request.headers.set('traceparent', traceparentOf(frame));
    return fetch.call(this, request);
  },
}.fetch;

// What their callbacks throw at once reaches no listener, and no log.
for (const name of ['setTimeout', 'setInterval']) {
  const { [name]: set } = globalThis;
  globalThis[name] = {
    [name](callback, ...others) {
      if (typeof callback !== 'function') return Reflect.apply(set, globalThis, [callback, ...others]);
      const timed = function (...values) {
        try {
          return Reflect.apply(callback, this, values);
        } catch (error) {
          tell(error, 'uncaught');
          throw error;
        }
      };
      return Reflect.apply(set, globalThis, [timed, ...others]);
    },
  }[name];
}

addEventListener('unhandledrejection', ({ reason }) => tell(reason, 'unhandledrejection'));
addEventListener('error', ({ error }) => tell(error, 'error event'));
