// Has the app's code run in events: its handlers, the methods that workerd calls, and what they give away. Calls of one object
// by another carry the trace. To the app nothing is different: the same values are returned, the same errors are thrown.

import {
  DurableObject,
  env,
  RpcTarget,
  ServiceStub,
  WorkerEntrypoint,
  WorkflowEntrypoint,
} from 'cloudflare:workers';
import { tell, toldRun } from './cellar-error-reporter.js';
import {
  currentEvent,
  eventOf,
  isInEvent,
  isTraceparent,
  readRequest,
  runEvent,
  traceIdOf,
  traceparentOf,
} from './cellar-events.js';

/** workerd's own: an app may put another in its place. */
const { Request } = globalThis;

/** The trace of the event that the running code belongs to. */
export function eventTraceId() {
  return traceIdOf(currentEvent());
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
