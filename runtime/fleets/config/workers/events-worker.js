// Finds the event of the running code (a request, cron, message or object's method call) and its trace.

import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';

const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Size of the pool of frames (see `PooledFrame`). When all are in use, a request gets a new frame. */
const POOLED_FRAMES = 8;
/** A handler that ends within this many microtasks has ended in its first turn of the event loop. */
const MICROTASKS = 8;
/**
 * Time after which a bound frame is reused, in ms. It is needed because workerd does not report requests that it abandons.
 */
const GIVEN_UP_MS = 600_000;

/** The value is a `PooledFrame`, or an event that has none. */
const frames = new AsyncLocalStorage();
/** workerd's own class, taken before the app can replace it. */
const { Request } = globalThis;

/**
 * An async context frame that requests reuse one after another. Making a frame takes workerd longer than all other work for
 * an event; entering an existing one takes a tenth of that.
 *
 * A request's code may still run when its frame is used by another request. Most requests are answered in their first turn
 * of the event loop, and none of their code runs later. For other requests, the frame is bound when this turn ends, or when
 * work after the answer begins. workerd enters a bound resource only within the request that made it, which identifies the
 * request.
 */
class PooledFrame {
  #enter = frames.run(this, () => AsyncLocalStorage.snapshot());
  #event = null;
  #bound = null;
  #boundAt = 0;
  /** Reference count: one for the handler until it has answered, and one for each later task. */
  #needs = 0;

  get isFree() {
    return this.#needs === 0 || (this.#bound !== null && Date.now() - this.#boundAt > GIVEN_UP_MS);
  }

  run(event, callback) {
    this.#event = event;
    this.#bound = null;
    this.#needs = 1;
    return this.#enter(callback);
  }

  needs(event) {
    return this.#event === event && this.#needs > 0;
  }

  /** Binds the frame to the running request. Call it only from the code of this request. */
  bind() {
    if (this.#bound !== null) return;
    this.#bound = new AsyncResource('cellar');
    this.#boundAt = Date.now();
  }

  /** Keeps the frame for a task after the answer. @returns a function to call once when the task has ended */
  keep() {
    const event = this.#event;
    this.bind();
    this.#needs++;
    return () => this.leave(event);
  }

  leave(event) {
    if (this.#event === event) this.#needs--;
  }

  /** The event of the running code; undefined when another request uses the frame, or none does. */
  get event() {
    if (this.#bound === null) return this.#needs > 0 ? this.#event : undefined;
    try {
      this.#bound.runInAsyncScope(doNothing);
      return this.#event;
    } catch {
      return undefined;
    }
  }

  /** The event of a request that ended in its first turn, for workerd's calls at the end of that turn. */
  get eventOfTurn() {
    return this.#bound === null && this === latest ? this.#event : undefined;
  }
}

function doNothing() {}

const isBound = Cloudflare.compatibilityFlags.bind_asynclocalstorage_snapshot_to_request;
const pool = Array.from({ length: isBound ? POOLED_FRAMES : 0 }, () => new PooledFrame());
let next = 0;
/** The pooled frame of the latest event; null when it has none. */
let latest = null;

/** Returns an unused frame of the pool; null when all are in use. */
function freeFrame() {
  for (let tried = 0; tried < pool.length; tried++) {
    const frame = pool[next];
    next = (next + 1) % pool.length;
    if (frame.isFree) return frame;
  }
  return null;
}

/**
 * Makes an event.
 * @param handler a name for people, such as `fetch` or `Room.alarm`
 * @param given the handler's first argument. If it is a request, the event refers to it
 */
export function eventOf(handler, given = null) {
  const request = given instanceof Request ? given : null;
  return { handler, request, method: null, url: null, trace: null, calls: null };
}

/**
 * Copies the fields of an event's request that reports need, and releases the request. A request that stays in a frame would
 * survive V8's minor collections, and take more memory than these fields.
 */
export function readRequest(event) {
  const { request } = event;
  if (request === null) return;
  event.request = null;
  const { method, url, headers } = request;
  // `method` is a new string for each request.
  event.method = method === 'GET' ? 'GET' : method;
  event.url = url;
  event.trace ??= headers.get('traceparent');
}

/** Returns the `traceparent` of an event: that of its request or caller if valid, else a new one. */
export function traceparentOf(event) {
  if (event.request !== null) event.trace ??= event.request.headers.get('traceparent');
  if (!isTraceparent(event.trace)) event.trace = newTraceparent();
  return event.trace;
}

export function isTraceparent(value) {
  return TRACEPARENT.test(value);
}

export function traceIdOf(event) {
  return traceparentOf(event).slice(3, 35);
}

/** Returns a new `traceparent`. Uses the digits of two UUIDs, because workerd makes them much faster than random bytes. */
function newTraceparent() {
  const [trace, span] = [crypto.randomUUID(), crypto.randomUUID()];
  return `00-${trace.replaceAll('-', '')}-${span.slice(0, 8)}${span.slice(-8)}-00`;
}

/**
 * Runs a callback in an event. An event whose request was not read by `readRequest` gets a pooled frame, if one is free.
 * Such an event must be a request of its own in workerd, as requests to entrypoints are.
 */
export function runEvent(event, callback) {
  latest = event.request === null ? null : freeFrame();
  if (latest === null) {
    readRequest(event);
    return frames.run(event, callback);
  }
  const frame = latest;
  const leave = () => frame.leave(event);
  try {
    const result = frame.run(event, callback);
    if (result instanceof Promise) {
      result.then(leave, leave);
      bindUnlessDone(frame, event);
    } else leave();
    return result;
  } catch (error) {
    leave();
    throw error;
  }
}

/** Binds a frame if its request outlives its first turn. */
async function bindUnlessDone(frame, event) {
  for (let taken = 0; taken < MICROTASKS; taken++) {
    await null;
    if (!frame.needs(event)) return;
  }
  frame.bind();
}

/** Whether the running code belongs to an event, even one that has ended. */
export function isInEvent() {
  return frames.getStore() !== undefined;
}

/** Keeps the current event for code that runs after the answer. @returns a function to call once when this code has ended */
export function keepEvent() {
  const found = frames.getStore();
  return found instanceof PooledFrame && found.event !== undefined ? found.keep() : doNothing;
}

// Objects of these classes let a request's code run while its answer is read, so they keep the event. Nothing reports when
// this code has ended.
for (const name of [
  'FixedLengthStream',
  'HTMLRewriter',
  'IdentityTransformStream',
  'ReadableStream',
  'TransformStream',
  'WebSocketPair',
]) {
  const { [name]: main } = globalThis;
  const kept = new Proxy(main, {
    construct(target, values, given) {
      keepEvent();
      return Reflect.construct(target, values, given === kept ? target : given);
    },
  });
  main.prototype.constructor = kept;
  globalThis[name] = kept;
}

/** Returns the event that the running code belongs to; undefined for none. */
export function currentEvent() {
  const found = frames.getStore();
  return found instanceof PooledFrame ? found.event : found;
}

/** Returns the event of a promise rejection that was not handled in the turn of the event loop when it occurred. */
export function eventOfRejection() {
  const found = frames.getStore();
  return currentEvent() ?? (found instanceof PooledFrame ? found.eventOfTurn : undefined);
}
