// A service binding to another app, in the workerd process of the calling app. Requests are forwarded unchanged. Each method
// call has its own connection, so that the host sees when the call begins and ends, as for a request.

import { WorkerEntrypoint } from 'cloudflare:workers';
import { RpcSession, WebSocketTransport } from './cellar-capnweb.js';

/** Prefix of a call's last argument when it carries the trace. The other app removes it. See `cellar-capture.js`. */
const CARRIED = '\u001ecellar-traceparent ';
/** The response header with the error that the called `fetch()` threw. */
const THROWN_HEADER = 'x-cellar-thrown';
/** Error classes that are kept when an error is thrown again. All others become `Error`. */
const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
/** How often to check whether a call's connection is still in use by its result, in ms. */
const LOOK_MS = 50;
/** Maximum number of values in a result that are searched for references to the other app. */
const LOOKED_AT = 10_000;

export default class Service extends WorkerEntrypoint {
  constructor(context, env) {
    super(context, env);
    const { index, isPlain } = context.props;
    const service = env[`fetch ${index}`];
    // biome-ignore lint/correctness/noConstructorReturn: a binding has every method, and only the other app knows them.
    return forwarding(this, {
      // The other app handles a plain request like a visitor's, so its response could contain a fake `THROWN_HEADER`.
      fetch: (request) => (isPlain ? service.fetch(request) : fetchOrThrow(service, request)),
      connect: (headers) => connect(env[`rpc ${index}`], headers),
      context,
    });
  }
}

/**
 * Returns a stand-in for an object or entrypoint of another app. The stand-in forwards all calls.
 * @param to.fetch answers a request
 * @param to.connect opens a connection for a method call, with additional headers
 * @param to.context keeps the connection open while a result of the call refers to the other app
 */
export function forwarding(self, { fetch, connect, context }) {
  return new Proxy(self, {
    get(target, name) {
      if (name === 'fetch') return fetch;
      if (typeof name !== 'string' || name in target) return Reflect.get(target, name);
      const method = (...values) => call(context, connect, name, values);
      // workerd reads `then` only if the caller reads a property. If the caller calls a method, workerd calls `method`.
      return Object.defineProperty(method, 'then', {
        value: (done, failed) => ask(context, connect({}), (main) => main.read(name)).then(done, failed),
      });
    },
  });
}

function call(context, connect, name, values) {
  const last = values.at(-1);
  const carries = typeof last === 'string' && last.startsWith(CARRIED);
  const headers = carries ? { traceparent: last.slice(CARRIED.length) } : {};
  return ask(context, connect(headers), (main) => main.call(name, values));
}

/** Calls `fetch()` of another app's entrypoint or object. @throws {Error} the error of that call, with its class and name */
export async function fetchOrThrow(service, request) {
  const answer = await service.fetch(request);
  const thrown = answer.headers.get(THROWN_HEADER);
  if (thrown === null) return answer;
  const { name, message } = JSON.parse(thrown);
  const Thrown = Object.hasOwn(ERRORS, name) ? ERRORS[name] : Error;
  throw Object.assign(new Thrown(message), { name });
}

/** Opens a connection for one method call. @throws {Error} with the reason of a refusal */
export async function connect(service, headers) {
  const answer = await service.fetch('http://service/', { headers: { upgrade: 'websocket', ...headers } });
  if (!answer.webSocket) throw new Error(await whyNot(answer));
  return answer.webSocket;
}

async function ask(context, connecting, question) {
  const socket = await connecting;
  socket.accept();
  const session = new RpcSession(new WebSocketTransport(socket));
  let isReferenced = false;
  try {
    const result = await question(session.getRemoteMain());
    isReferenced = hasReferences(result);
    return result;
  } finally {
    if (isReferenced) context.waitUntil(closeAfterUse(session, socket));
    else socket.close(1000);
  }
}

async function whyNot(answer) {
  const { detail } = await answer.json().catch(() => ({}));
  return detail ?? `the service answered ${answer.status}`;
}

/** Whether a result refers to the other app by a stub, function or stream. True for a result with too many values. */
function hasReferences(result) {
  const left = [result];
  for (let looked = 0; left.length > 0; looked++) {
    const value = left.pop();
    if (typeof value === 'function' || looked > LOOKED_AT) return true;
    if (typeof value !== 'object' || value === null) continue;
    const prototype = Object.getPrototypeOf(value);
    if (Array.isArray(value) || prototype === Object.prototype || prototype === null) {
      for (const each of Object.values(value)) left.push(each);
    } else if (!isOwn(value)) return true;
  }
  return false;
}

function isOwn(value) {
  return (
    value instanceof Date ||
    value instanceof Error ||
    value instanceof URL ||
    value instanceof Headers ||
    value instanceof ArrayBuffer ||
    ArrayBuffer.isView(value)
  );
}

/**
 * Closes the connection when it is no longer in use. Each side of a session has one main object. While a side has more
 * objects, the connection is in use.
 */
async function closeAfterUse(session, socket) {
  let stats;
  do {
    await scheduler.wait(LOOK_MS);
    stats = session.getStats();
  } while ((stats.imports > 1 || stats.exports > 1) && socket.readyState === WebSocket.OPEN);
  socket.close(1000);
}
