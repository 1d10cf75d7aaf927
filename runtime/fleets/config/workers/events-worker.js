// Finds the event of the running code (a request, cron, message or object's method call) and its trace.

import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';

const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Size of the pool of frames (see `PooledFrame`). More concurrent requests get frames of their own. */
const POOLED_FRAMES = 8;
/** Microtasks within which a handler counts as done in its first turn. */
const MICROTASKS = 8;
/** Time after which a bound frame is reused, in ms: workerd does not report requests that it abandons. */
const GIVEN_UP_MS = 600_000;

/** Holds a `PooledFrame`, or an event without one. */
const frames = new AsyncLocalStorage();
/** workerd's own class, taken before the app can replace it. */
const { Request } = globalThis;

/**
 * An async context frame that requests reuse one after another. Making a frame takes workerd longer than all other work for
 * an event; entering an existing one takes a tenth of that.
 *
 * A request's code may still run when another request has its frame. Most requests are answered in their first turn of the
 * event loop and leave no code behind. For other requests, the frame is bound when that turn ends, or when work after the
 * answer begins. workerd enters a bound resource only within the request that made it, which identifies the request.
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

  /** Call only from the request's own code. */
  bind() {
    if (this.#bound !== null) return;
    this.#bound = new AsyncResource('cellar');
    this.#boundAt = Date.now();
  }

  /** Keeps the frame for a task after the answer. @returns a function that ends it; call once */
  keep() {
    const event = this.#event;
    this.bind();
    this.#needs++;
    return () => this.leave(event);
  }

  leave(event) {
    if (this.#event === event) this.#needs--;
  }

  /** The event of the running code; undefined when another request has the frame. */
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
/** The frame of the last event; null when it has none. */
let latest = null;

/** The next unused frame; null when all are in use. */
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
 * @param given the handler's argument. If it is a request, the event has the request's data
 */
export function eventOf(handler, given = null) {
  const request = given instanceof Request ? given : null;
  return { handler, request, method: null, url: null, trace: null, calls: null };
}

/**
 * Copies the reported fields of an event's request and releases it. Called only for events that need them. Requests kept in
 * a frame would survive V8's minor collections and take more memory than these fields.
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

/** The `traceparent` of an event: its own if valid, else a new one. */
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

/** Uses the digits of two UUIDs, which are much faster than random bytes here. */
function newTraceparent() {
  const [trace, span] = [crypto.randomUUID(), crypto.randomUUID()];
  return `00-${trace.replaceAll('-', '')}-${span.slice(0, 8)}${span.slice(-8)}-00`;
}

/**
 * Runs a callback in an event. An event whose request is not read yet gets a pooled frame. workerd must run such a request
 * apart from others, as it does for requests to entrypoints.
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

/** Keeps the event for code after its answer. @returns a function to call once when that code has ended */
export function keepEvent() {
  const found = frames.getStore();
  return found instanceof PooledFrame && found.event !== undefined ? found.keep() : doNothing;
}

// Objects of these classes let a request's code run while its answer is read. Nothing reports when that ends.
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

/** The event that the running code belongs to; undefined for none. */
export function currentEvent() {
  const found = frames.getStore();
  return found instanceof PooledFrame ? found.event : found;
}

/** The event of a promise rejection that was not handled in its turn. */
export function eventOfRejection() {
  const found = frames.getStore();
  return currentEvent() ?? (found instanceof PooledFrame ? found.eventOfTurn : undefined);
}
