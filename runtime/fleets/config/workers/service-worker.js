// A service binding to another app, in the calling cell. Requests pass unchanged. Each method call gets its own connection,
// so that the host sees it begin and end like a request.

import { WorkerEntrypoint } from 'cloudflare:workers';
import { RpcSession, WebSocketTransport } from './cellar-capnweb.js';

/** Prefix of a call's last argument when it carries the trace. The other app removes it. See `cellar-capture.js`. */
const CARRIED = '\u001ecellar-traceparent ';
/** How often a call is polled while its result refers to the other app, in ms. */
const LOOK_MS = 50;
/** Most values inside a result that are searched for references to the other app. */
const LOOKED_AT = 10_000;

export default class Service extends WorkerEntrypoint {
  constructor(context, env) {
    super(context, env);
    const { index } = context.props;
    // biome-ignore lint/correctness/noConstructorReturn: a binding has every method, and only the other app knows them.
    return new Proxy(this, {
      get(target, name) {
        if (name === 'fetch') return (request) => env[`fetch ${index}`].fetch(request);
        if (typeof name !== 'string' || name in target) return Reflect.get(target, name);
        return (...values) => call(context, env[`rpc ${index}`], name, values);
      },
    });
  }
}

async function call(context, service, name, values) {
  const last = values.at(-1);
  const carries = typeof last === 'string' && last.startsWith(CARRIED);
  const headers = {
    upgrade: 'websocket',
    ...(carries && { traceparent: last.slice(CARRIED.length) }),
  };
  const answer = await service.fetch('http://service/', { headers });
  const socket = answer.webSocket;
  if (!socket) throw new Error(await whyNot(answer));
  socket.accept();
  const session = new RpcSession(new WebSocketTransport(socket));
  let isReferenced = false;
  try {
    const result = await session.getRemoteMain().call(name, values);
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

/** Whether a result still refers to the other app: by a stub, function or stream. */
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

/** Closes when idle: each side of a session has one main object; more objects mean that it is in use. */
async function closeAfterUse(session, socket) {
  let stats;
  do {
    await scheduler.wait(LOOK_MS);
    stats = session.getStats();
  } while ((stats.imports > 1 || stats.exports > 1) && socket.readyState === WebSocket.OPEN);
  socket.close(1000);
}
