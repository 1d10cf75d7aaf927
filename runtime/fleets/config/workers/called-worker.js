// Answers calls of this app's exports, objects, `tail()` and outbound Worker by other apps. The host names the target of a
// call.

import { RpcTarget } from 'cloudflare:workers';
import { calledBy } from './cellar-capture.js';

/** The header with the call as JSON. Written by the host. */
export const CALL_HEADER = 'x-cellar-call';
/** The header with the parameters for an outbound Worker, as JSON. Written by the host. */
const OUTBOUND_HEADER = 'x-cellar-outbound';
/** The response header with the error that the called `fetch()` threw. The calling app's process throws this error again. */
const THROWN_HEADER = 'x-cellar-thrown';
/** Maximum length of the error's name and of its message in `THROWN_HEADER`, in characters each. */
const THROWN_LENGTH = 2_000;

/** Exports of Cellar's entry module that only the host and workerd may call. */
const HIDDEN = ['CellarState', 'CellarCache'];

/** Gives the calling app the methods and properties of an export or an object. */
class Methods extends RpcTarget {
  #target;

  constructor(target) {
    super();
    this.#target = target;
  }

  call(name, values) {
    return this.#target[name](...calledBy(name, values));
  }

  read(name) {
    return this.#target[name];
  }
}

/**
 * Returns the response to a call.
 * @param exports the Worker's `ctx.exports`
 * @param tail calls the Worker's `tail()`; undefined for a Worker without it
 * @param outbound calls the Worker's `fetch()` with the parameters of a script's call as variables
 */
export async function answerCall(request, exports, { tail, outbound }) {
  const { kind, object, from, ...asked } = JSON.parse(request.headers.get(CALL_HEADER));
  if (kind === 'tail') return answerTail(request, from, tail);
  if (kind === 'outbound') return answerOutbound(request, outbound);
  const target = object === undefined ? entrypointOf(asked, exports) : objectOf(object, exports);
  if (target instanceof Response) return target;
  if (kind === 'fetch') {
    const passed = new Request(request);
    passed.headers.delete(CALL_HEADER);
    return fetchFrom(target, passed);
  }
  const capnweb = await import('./cellar-capnweb.js').catch(() => null);
  if (capnweb === null)
    return refusal(
      `The ${object === undefined ? `entrypoint ${nameOf(asked)}` : `class ${object.className}`} of the app has no methods.`,
    );
  return capnweb.newWorkersWebSocketRpcResponse(request, new Methods(target));
}

/** Calls the Worker as the outbound Worker of a script, with the parameters of the script's call. */
function answerOutbound(request, outbound) {
  const parameters = JSON.parse(request.headers.get(OUTBOUND_HEADER));
  const passed = new Request(request);
  passed.headers.delete(CALL_HEADER);
  passed.headers.delete(OUTBOUND_HEADER);
  return outbound(passed, parameters);
}

/**
 * Calls `tail()` with another app's events, and answers when it has ended. The other app does not get an error of `tail()`.
 */
async function answerTail(request, scriptName, tail) {
  if (tail === undefined) return refusal('Its Worker has no tail() handler.', 'tail_not_found');
  const items = await request.json();
  try {
    await tail(items.map((item) => traceItem(item, scriptName)));
  } catch {
    // The error is already reported.
  }
  return new Response(null, { status: 204 });
}

/** Returns an event in the form that `tail()` gets on Cloudflare, made from its JSON. */
function traceItem({ unredacted, ...item }, scriptName) {
  const { event } = item;
  if (event?.request && unredacted) {
    const value = () => ({ ...event.request, ...unredacted });
    Object.defineProperty(event.request, 'getUnredacted', { value });
  }
  // The time of an alarm is a `Date`, the time of a cron is a number.
  if (typeof event?.scheduledTime === 'string') event.scheduledTime = new Date(event.scheduledTime);
  return { ...item, scriptName };
}

function nameOf({ entrypoint = 'default' }) {
  return entrypoint;
}

function exportOf(name, exports) {
  const isThere = exports !== undefined && Object.hasOwn(exports, name) && !HIDDEN.includes(name);
  return isThere ? exports[name] : undefined;
}

/** Returns a stub of an entrypoint, or a refusal. */
function entrypointOf({ entrypoint, props }, exports) {
  const name = nameOf({ entrypoint });
  const found = exportOf(name, exports);
  if (typeof found?.fetch !== 'function') return refusal(`The app has no entrypoint ${name}.`);
  return props === undefined ? found : found({ props });
}

/** Returns a stub of an object, or a refusal. If the call has the object's name, `ctx.id` of the object has it too. */
function objectOf({ className, id, name }, exports) {
  const namespace = exportOf(className, exports);
  // An entrypoint's stub has every method, even `idFromString`. But a namespace has no `fetch`.
  if (typeof namespace?.idFromString !== 'function' || typeof namespace.fetch === 'function')
    return refusal(`The app has no class ${className} of Durable Objects.`, 'class_not_found');
  try {
    const known = namespace.idFromString(id);
    const named = name === undefined ? known : namespace.idFromName(name);
    return namespace.get(named.equals(known) ? named : known);
  } catch {
    const detail = `The id is not of the class ${className}. If the class was deleted and made again, deploy the calling app again.`;
    return refusal(detail, 'object_not_found');
  }
}

/** Calls the `fetch()` of a stub. An error that it throws is passed in a header, so that the calling app can throw it. */
async function fetchFrom(stub, request) {
  try {
    const answer = await stub.fetch(request);
    // The called code may pass on a response from elsewhere, which must not fake this header.
    return answer.headers.has(THROWN_HEADER) ? withoutThrown(answer) : answer;
  } catch (error) {
    const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
    const thrown = asciiJson({
      name: String(name).slice(0, THROWN_LENGTH),
      message: String(message).slice(0, THROWN_LENGTH),
    });
    return new Response(null, { status: 500, headers: { [THROWN_HEADER]: thrown } });
  }
}

function withoutThrown(answer) {
  const passed = new Response(answer.body, answer);
  passed.headers.delete(THROWN_HEADER);
  return passed;
}

function asciiJson(value) {
  return JSON.stringify(value).replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function refusal(detail, code = 'entrypoint_not_found') {
  return Response.json({ detail, code }, { status: 404 });
}
