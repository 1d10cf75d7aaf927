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
import {
  currentEvent,
  eventOf,
  eventOfRejection,
  isInEvent,
  isTraceparent,
  readRequest,
  runEvent,
  traceIdOf,
  traceparentOf,
} from './cellar-events.js';

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

const print = { ...console };
/** workerd's own: an app may put another in its place. */
const { Request } = globalThis;

/** The trace of the event that the running code belongs to. */
export function eventTraceId() {
  return traceIdOf(currentEvent());
}

/** Also where no random bytes are to be had, as before the first event. */
function shortId() {
  return Math.random().toString(36).slice(2, 10);
}

/** The call that `begin` is to make. By these and not by values of its own, which `AsyncLocalStorage` copies at some cost. */
let called;
let receiver;
let values;

/** What makes events that belong to the trace of the one under way. */
export function nestedEvent() {
  const outer = currentEvent();
  return (handler) => {
    const event = eventOf(handler);
    if (outer !== undefined) event.trace = traceparentOf(outer);
    return event;
  };
}

/** Calls a handler of the app for a new event. What it throws, at once or later, is told, and thrown on. */
export function enter(handler, call, self, given, event = eventOf(handler, given[0])) {
  called = call;
  receiver = self;
  values = given;
  return runEvent(event, begin);
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
      if (isInEvent()) return Reflect.apply(method, this, values);
      const carried = carriedBy(values.at(-1));
      if (carried !== null) values.pop();
      const event = eventOf(handler, values[0]);
      const trace = carried ?? givenAway.get(this);
      if (trace !== undefined) event.trace = trace;
      // workerd runs the calls of an object's methods, and those that one caller makes of an entrypoint's, as one request.
      if (name !== 'fetch' || !(this instanceof WorkerEntrypoint)) readRequest(event);
      return enter(handler, method, this, values, event);
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
  const event = currentEvent();
  if (event !== undefined) givenAway.set(value, traceparentOf(event));
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
    const running = currentEvent();
    const startedAt = Date.now();
    const end = (failure) => tellRun(event, running, startedAt, failure);
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
function tellRun(event, running, startedAt, failure) {
  const run = {
    cron: event.cron,
    trigger: event instanceof ManualRun ? 'manual' : 'schedule',
    started_at: startedAt,
    duration_ms: Date.now() - startedAt,
    outcome: failure === null ? 'ok' : 'failed',
    error: failure,
  };
  const head = { run, ...(running !== undefined && { trace_id: traceIdOf(running) }) };
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
  return isTraceparent(carried) ? carried : null;
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
  return currentEvent() === undefined ? method : new Proxy(method, carrying);
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
    const event = currentEvent();
    if (event === undefined) return method(...values);
    for (const value of values) guardGiven(value);
    return method(...values, CARRIED + traceparentOf(event));
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
 * @param event the one that it belongs to; undefined for none
 * @param printed prints what the app printed with it, with this JSON before it; null when it printed nothing
 * @returns whether it was told
 */
export function tell(error, mechanism, event = currentEvent(), printed = null) {
  try {
    if (!mayTell()) {
      untold++;
      return false;
    }
    const head = {
      error: { ...described(error), mechanism, ...(untold > 0 && { untold }), ...where(event) },
    };
    if (event !== undefined) head.trace_id = traceIdOf(event);
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
  // The clock may have been set back.
  const passedS = Math.max(0, now - filledAt) / 1000;
  left = Math.min(ERRORS_SAVED, left + passedS * ERRORS_PER_S);
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

function where(event) {
  if (event === undefined) return {};
  readRequest(event);
  const { handler, method, url } = event;
  if (url === null) return { handler };
  return { handler, method: cut(method, 20), path: cut(new URL(url).pathname, PATH_LENGTH) };
}

function cut(text, length) {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

for (const level of ['debug', 'error', 'info', 'log', 'warn']) {
  console[level] = {
    [level](...values) {
      const event = currentEvent();
      const error = level === 'error' ? values.find((value) => value instanceof Error) : undefined;
      for (let i = 0; i < values.length; i++)
        if (typeof values[i] === 'string') values[i] = cut(values[i], PRINTED_LENGTH);
      if (error !== undefined && tell(error, 'console', event, (head) => printWith(level, head, values)))
        return;
      if (event === undefined) print[level](...values);
      else printWith(level, `{"trace_id":"${traceIdOf(event)}"}`, values);
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
    const event = currentEvent();
    if (
      event === undefined ||
      (init === undefined && input instanceof Request && input.headers.has('traceparent'))
    )
      return fetch.call(this, input, init);
    if (init === undefined && typeof input === 'string')
      return fetch.call(this, input, { headers: { traceparent: traceparentOf(event) } });
    const request = new Request(input, init);
    if (!request.headers.has('traceparent')) request.headers.set('traceparent', traceparentOf(event));
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

addEventListener('unhandledrejection', ({ reason }) =>
  tell(reason, 'unhandledrejection', eventOfRejection()),
);
addEventListener('error', ({ error }) => tell(error, 'error event'));
