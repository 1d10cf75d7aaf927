// Runs the app's code in events: its handlers, the methods that workerd calls, and methods of objects that the app passes by
// RPC. An event is one request, cron run, message or method call. Calls between objects carry the trace. The app sees the
// same return values and errors as without this module.

import {
  DurableObject,
  env,
  RpcTarget,
  ServiceStub,
  WorkerEntrypoint,
  WorkflowEntrypoint,
} from 'cloudflare:workers';
import { report, reported } from './cellar-error-reporter.js';
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

/** workerd's own class, taken before the app can replace it. */
const { Request } = globalThis;

/** Returns the trace id of the event of the running code. */
export function eventTraceId() {
  return traceIdOf(currentEvent());
}

/** Functions that `cellar-calls.js` replaces, where it is loaded. */
export const watcher = {
  /** Called when the running event has called a method of another object. */
  called(_stub, _method, _result) {},
  /** Called when the handler of an event with calls has ended. */
  ended(_event) {},
};

/** The arguments of `begin`. They are in variables, because `AsyncLocalStorage` copies arguments, which is slow. */
let entered;
let called;
let receiver;
let values;

/** Returns a function that makes events with the current event's trace. */
export function nestedEvent() {
  const outer = currentEvent();
  return (handler) => {
    const event = eventOf(handler);
    if (outer !== undefined) event.trace = traceparentOf(outer);
    return event;
  };
}

/** Calls a handler of the app in a new event. Reports what it throws, sync or async, and rethrows it. */
export function enter(handler, call, self, given, event = eventOf(handler, given[0])) {
  called = call;
  receiver = self;
  values = given;
  entered = event;
  return runEvent(event, begin);
}

/** Calls the handler. Runs within the event, so that a later rejection is reported for this event. */
function begin() {
  const event = entered;
  try {
    const result = Reflect.apply(called, receiver, values);
    // Other thenables are not awaited, because reading their `then` may have side effects.
    if (result instanceof Promise) {
      result.then(
        (value) => {
          guardGiven(value);
          endCalls(event);
        },
        (error) => {
          reportUncaught(error);
          endCalls(event);
        },
      );
    } else {
      guardGiven(result);
      endCalls(event);
    }
    return result;
  } catch (error) {
    reportUncaught(error);
    endCalls(event);
    throw error;
  }
}

function endCalls(event) {
  if (event.calls !== null) watcher.ended(event);
}

function reportUncaught(error) {
  report(error, 'uncaught');
}

/** Prototypes of JavaScript's and workerd's own classes, whose methods are not guarded. */
const builtIn = new Set(
  [Object, DurableObject, RpcTarget, WorkerEntrypoint, WorkflowEntrypoint].map(({ prototype }) => prototype),
);
/** Prototypes whose methods are guarded: they enter an event when workerd calls them. */
const guarded = new Set();

/** Yields the methods of a class that workerd may call, inherited ones included, each with its prototype. */
function* methodsOf(main) {
  for (let each = main.prototype; each && !builtIn.has(each); each = Object.getPrototypeOf(each))
    for (const [name, described] of Object.entries(Object.getOwnPropertyDescriptors(each)))
      if (name !== 'constructor') yield { owner: each, name, described };
}

function isGuardable({ value, configurable }) {
  return typeof value === 'function' && configurable;
}

/**
 * Returns a proxy of an instance for workerd. Its methods enter an event. The app's own instance and class stay as they are,
 * because libraries such as decorators identify methods by their function.
 */
export function guardInstance(className, instance) {
  const guards = new Map();
  return new Proxy(instance, {
    get(target, name) {
      const method = target[name];
      if (typeof method !== 'function' || typeof name === 'symbol' || name in Object.prototype) return method;
      const known = guards.get(name);
      if (known?.method === method) return known.guarded;
      const guarded = guardedMethod(className, name, method).bind(target);
      guards.set(name, { method, guarded });
      return guarded;
    },
  });
}

/**
 * Makes methods of an RPC target's class enter an event when workerd calls them. workerd accepts no proxies of RPC targets.
 */
function guard(main) {
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
  method = reported(name, method);
  const { [name]: entering } = {
    [name](...values) {
      if (isInEvent()) return Reflect.apply(method, this, values);
      const carried = carriedBy(values.at(-1));
      if (carried !== null) values.pop();
      const event = eventOf(handler, values[0]);
      const trace = carried ?? givenAway.get(this);
      if (trace !== undefined) event.trace = trace;
      // Reads the request, so that `runEvent` uses no pooled frame: workerd may run several of these calls as one request.
      if (name !== 'fetch' || !(this instanceof WorkerEntrypoint)) readRequest(event);
      return enter(handler, method, this, values, event);
    },
  };
  return Object.defineProperty(entering, 'length', { value: method.length, configurable: true });
}

/** By RPC target that the app has passed to another object: the trace of the event that passed it. */
const givenAway = new WeakMap();

/**
 * Called with each value that the running event returns, or passes to another object. Makes the methods of an RPC target run as
 * events with this event's trace.
 */
function guardGiven(value) {
  if (!(value instanceof RpcTarget)) return;
  guard(value.constructor);
  const event = currentEvent();
  if (event !== undefined) givenAway.set(value, traceparentOf(event));
}

/** Called for each call of the imported `waitUntil` by the app. Cellar's entry module replaces it to count the tasks. */
export const imported = { waitUntil(_promise) {} };

/**
 * Prefix of the text that follows a method call's own arguments. The caller's `traceparent` comes after the prefix. The
 * trace is a text, because an object would cost some µs more for each call.
 */
const CARRIED = '\u001ecellar-traceparent ';

/** Returns the trace in an argument; null for an argument of the app's own. */
function carriedBy(value) {
  if (typeof value !== 'string' || !value.startsWith(CARRIED)) return null;
  const carried = value.slice(CARRIED.length);
  return isTraceparent(carried) ? carried : null;
}

/**
 * Names that are not a plain method in at least one class of the app. Calls of these names carry no trace, because this
 * class would not remove it from the arguments.
 */
const unsure = new Set();
/** Names of methods whose calls carry the trace. */
const expected = new Set();

/** Makes calls of a class's methods carry the caller's trace, if it is a Durable Object or an entrypoint. */
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

/** Class names of stubs of the app's own classes: an object, and an entrypoint in `ctx.exports`. */
const OWN_STUBS = ['DurableObject', 'LoopbackServiceStub'];
/** All values in `env`. For service bindings see `expectCallsBy`. */
const bindings = new Set(Object.values(env));
/** Whether the app may load Workers. Methods of loaded Workers would get the trace as an argument. */
const loadsWorkers = [...bindings].some((binding) => binding?.constructor?.name === 'WorkerLoader');

/**
 * Whether a stub leads to a class of the app. Bindings and loaded Workers have the same stub class as entrypoints with
 * `props`, so they are excluded.
 */
function isOwnStub(stub) {
  if (Object.getPrototypeOf(stub) === ServiceStub.prototype) return !loadsWorkers && !bindings.has(stub);
  return OWN_STUBS.includes(stub.constructor.name);
}

/** Defines a property of all stubs. It takes precedence over workerd's methods, which a stub has for every name. */
function carry(name) {
  Object.defineProperty(ServiceStub.prototype, name, {
    configurable: true,
    get() {
      if (this === ServiceStub.prototype) return undefined;
      const method = methodOf(this, name);
      return typeof method === 'function' && isOwnStub(this) ? carryingMethod(this, name, method) : method;
    },
  });
}

/**
 * Returns a stub's method for a name that its prototype has too. The prototype would hide the method, so it is removed for
 * the lookup.
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

function carryingMethod(stub, name, method) {
  return currentEvent() === undefined ? method : new Proxy(method, new Carrying(stub, name));
}

/**
 * Makes method calls through a service binding carry the caller's trace. Such a binding has a method for every name that its
 * prototype lacks.
 * @param isOwn whether the binding leads to the app itself. Then only methods in `expected` carry the trace. In another app,
 *   `calledBy` removes the trace where needed
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
      return carries ? carryingMethod(service, name, method) : method;
    },
  });
  Object.setPrototypeOf(service, before);
}

/** Returns the arguments of a call by another app. Removes the trace, unless the called method itself does. */
export function calledBy(name, values) {
  return expected.has(name) || carriedBy(values.at(-1)) === null ? values : values.slice(0, -1);
}

class Carrying {
  constructor(stub, name) {
    this.stub = stub;
    this.name = name;
  }

  apply(method, _, values) {
    const event = currentEvent();
    if (event === undefined) return method(...values);
    for (const value of values) guardGiven(value);
    const result = method(...values, CARRIED + traceparentOf(event));
    watcher.called(this.stub, this.name, result);
    return result;
  }

  get(method, name) {
    const value = method[name];
    return typeof value === 'function' ? value.bind(method) : value;
  }
}

const { fetch } = ServiceStub.prototype;
/** Adds the trace of the current event to requests through stubs, such as to objects and service bindings. */
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
