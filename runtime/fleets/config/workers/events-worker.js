// Which event the running code belongs to: a request, a cron, a message, a call of an object's method; and its trace.

import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';

const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Requests that can be under way in places at once; more have frames of their own. */
const PLACES = 8;
/** Microtasks that a handler may take and be done within the turn that it was called in. */
const MICROTASKS = 8;
/** Of a request that has its place for so long nobody knows whether it has ended: workerd says nothing of one that it gives up. */
const GIVEN_UP_MS = 600_000;

/** Has a `Place`, or an event that has none. */
const frames = new AsyncLocalStorage();
/** workerd's own: an app may put another in its place. */
const { Request } = globalThis;

/**
 * What a request's code finds in its frame. workerd takes longer to make a frame than for all else that is done for an
 * event, and to enter one that is there takes it a tenth of that. So requests enter the frames of places, one after the other.
 *
 * Code of a request may still run when another has its place. Most requests are answered within the turn that they were
 * called in, and nothing is left of them. Others are bound when that turn ends, and when they begin what goes on after the
 * answer: workerd enters a bound resource only within the request that made it, which tells one from the other.
 */
class Place {
  #enter = frames.run(this, () => AsyncLocalStorage.snapshot());
  #event = null;
  #bound = null;
  #boundAt = 0;
  /** How many things need the place: the handler, until it has answered, and what goes on after it. */
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

  /** To be called by the request's own code. */
  bind() {
    if (this.#bound !== null) return;
    this.#bound = new AsyncResource('cellar');
    this.#boundAt = Date.now();
  }

  /** Of what goes on after the answer. @returns what says that it has ended, to be called once */
  keep() {
    const event = this.#event;
    this.bind();
    this.#needs++;
    return () => this.leave(event);
  }

  leave(event) {
    if (this.#event === event) this.#needs--;
  }

  /** The event of the running code; undefined when another has the place by now. */
  get event() {
    if (this.#bound === null) return this.#needs > 0 ? this.#event : undefined;
    try {
      this.#bound.runInAsyncScope(doNothing);
      return this.#event;
    } catch {
      return undefined;
    }
  }

  /** The event of a request that was done in its turn, in what workerd calls at the end of that. */
  get eventOfTurn() {
    return this.#bound === null && this === latest ? this.#event : undefined;
  }
}

function doNothing() {}

const isBound = Cloudflare.compatibilityFlags.bind_asynclocalstorage_snapshot_to_request;
const places = Array.from({ length: isBound ? PLACES : 0 }, () => new Place());
let next = 0;
/** That of the event which began last; null when it has none. */
let latest = null;

/** The next place that nobody needs; null when there is none. */
function freePlace() {
  for (let tried = 0; tried < places.length; tried++) {
    const place = places[next];
    next = (next + 1) % places.length;
    if (place.isFree) return place;
  }
  return null;
}

/**
 * @param handler for people, such as `fetch` or `Room.alarm`
 * @param given what the handler is given; of a request it says more
 */
export function eventOf(handler, given = null) {
  const request = given instanceof Request ? given : null;
  return { handler, request, method: null, url: null, trace: null };
}

/**
 * Reads what is told of an event's request, and lets go of it. Most events tell nothing: they are not read. What a frame
 * holds survives V8's small collections, so that requests there would be more than what is read of them.
 */
export function readRequest(event) {
  const { request } = event;
  if (request === null) return;
  event.request = null;
  const { method, url, headers } = request;
  // The text of a method is another one each time.
  event.method = method === 'GET' ? 'GET' : method;
  event.url = url;
  event.trace ??= headers.get('traceparent');
}

/** The `traceparent` of an event: the one given to it, when it is one; or one that is made here. */
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

/** Of the digits of two UUIDs, which come much faster than digits made of random bytes here. */
function newTraceparent() {
  const [trace, span] = [crypto.randomUUID(), crypto.randomUUID()];
  return `00-${trace.replaceAll('-', '')}-${span.slice(0, 8)}${span.slice(-8)}-00`;
}

/**
 * Calls back for an event. A request whose event was not read yet gets a place: workerd must run it apart from all others,
 * as it does with those to entrypoints.
 */
export function runEvent(event, callback) {
  latest = event.request === null ? null : freePlace();
  if (latest === null) {
    readRequest(event);
    return frames.run(event, callback);
  }
  const place = latest;
  const leave = () => place.leave(event);
  try {
    const result = place.run(event, callback);
    if (result instanceof Promise) {
      result.then(leave, leave);
      bindUnlessDone(place, event);
    } else leave();
    return result;
  } catch (error) {
    leave();
    throw error;
  }
}

/** Binds a place when the turn that its request was called in ends, and the request does not. */
async function bindUnlessDone(place, event) {
  for (let taken = 0; taken < MICROTASKS; taken++) {
    await null;
    if (!place.needs(event)) return;
  }
  place.bind();
}

/** Whether the running code belongs to an event, or did while that was under way. */
export function isInEvent() {
  return frames.getStore() !== undefined;
}

/** Of code that runs for the event after its answer. @returns what is to be called, once, when it has ended */
export function keepEvent() {
  const found = frames.getStore();
  return found instanceof Place && found.event !== undefined ? found.keep() : doNothing;
}

// With them, code of a request runs for as long as somebody reads its answer. Nobody says when that ends.
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
  return found instanceof Place ? found.event : found;
}

/** The event that a rejection belongs to which nobody handled in its turn. */
export function eventOfRejection() {
  const found = frames.getStore();
  return currentEvent() ?? (found instanceof Place ? found.eventOfTurn : undefined);
}
