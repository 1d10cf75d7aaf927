// Measures how long the calls of an event take: to storage, objects, queues, services, AI and other servers. Reports the
// times to the host when the event's handler has ended. The app only sees that its promises settle a microtask later.

import { env, ServiceStub } from 'cloudflare:workers';
import { watcher } from './cellar-capture.js';
import { reportCalls } from './cellar-error-reporter.js';
import { currentEvent } from './cellar-events.js';

/** Maximum number of timed calls of one event. The host enforces its own limit. */
const CALLS_MOST = 50;
/** Maximum length of a call's detail, such as its SQL or address, in characters. The host enforces its own limit. */
const DETAIL_LENGTH = 500;
/** Maximum number of statements that the detail of a batch has. */
const STATEMENTS_SHOWN = 20;
/**
 * Maximum average rate of reports, in characters a second. The host's limit of an app's output is about five times as high,
 * so that the app's own lines are still forwarded.
 */
const LENGTH_PER_S = 50_000;
/** Maximum characters reported in a burst after a quiet time. */
const LENGTH_SAVED = 100_000;
/** While fewer characters than this are left, only slow events are reported. */
const SAVED_FOR_SLOW = 30_000;
/** Characters that each report of an event takes from the rate limit, in addition to its calls. */
const EVENT_LENGTH = 1_000;
/** Characters that each call takes from the rate limit, in addition to its name and detail. */
const CALL_LENGTH = 60;
/** An event is slow if one of its calls takes at least this time, in ms. */
const SLOW_MS = 100;

let left = LENGTH_SAVED;
let filledAt = 0;

/** Replaces an event's list of calls once its handler has ended. Calls that begin later are not timed. */
const REPORTED = [];

/** Starts to time a call of the current event. @returns the call; null when it is not timed */
function begin(kind, name, detail) {
  const event = currentEvent();
  if (event === undefined) return null;
  event.calls ??= [];
  if (event.calls === REPORTED || event.calls.length >= CALLS_MOST) return null;
  const call = { kind, name, detail, startedAt: Date.now(), endedAt: null, failed: false };
  event.calls.push(call);
  return call;
}

function end(call, failed) {
  // workerd's clock advances only after I/O, so a call without I/O has the duration 0.
  call.endedAt = Date.now();
  call.failed = failed;
}

/** Times a promise. Returns the promise for the app: a rejection that the app does not handle stays unhandled. */
function timed(call, result) {
  if (!(result instanceof Promise)) {
    end(call, false);
    return result;
  }
  return result.then(
    (value) => {
      end(call, false);
      return value;
    },
    (error) => {
      end(call, true);
      throw error;
    },
  );
}

/** Replaces a method by one that is timed. @param detailOf returns the call's detail for a receiver and arguments */
function time(owner, method, kind, nameOf, detailOf = () => null) {
  const { [method]: original } = owner;
  if (typeof original !== 'function') return;
  const { [method]: timing } = {
    [method](...values) {
      const call = begin(kind, nameOf(this), detailOf(this, values));
      if (call === null) return Reflect.apply(original, this, values);
      try {
        return timed(call, Reflect.apply(original, this, values));
      } catch (error) {
        end(call, true);
        throw error;
      }
    },
  };
  Object.defineProperty(timing, 'length', { value: original.length, configurable: true });
  owner[method] = timing;
}

/** The names of the bindings, by their value in `env`. */
const names = new Map(
  Object.entries(env)
    .filter(([, value]) => typeof value === 'object' && value !== null)
    .map(([name, value]) => [value, name]),
);

/** By the class of a binding: the kind of its calls, and the methods to time. */
const METHODS = {
  D1Database: ['d1', ['batch', 'exec', 'dump']],
  KvNamespace: ['kv', ['get', 'getWithMetadata', 'put', 'list', 'delete']],
  R2Bucket: ['r2', ['head', 'get', 'put', 'list', 'delete', 'createMultipartUpload']],
  WorkerQueue: ['queue', ['send', 'sendBatch']],
  WorkflowImpl: ['workflow', ['create', 'createBatch', 'get']],
  Ai: ['ai', ['run']],
};

function sqlOf(_, [given]) {
  if (typeof given === 'string') return given;
  if (!Array.isArray(given)) return null;
  // A batch may have megabytes of SQL, so only a part is joined.
  const shown = given
    .slice(0, STATEMENTS_SHOWN)
    .map((each) => `${each?.statement ?? ''}`.slice(0, DETAIL_LENGTH));
  return shown.join('; ');
}

const prototypes = new Set();
for (const binding of names.keys()) {
  const main = Object.getPrototypeOf(binding);
  const known = METHODS[binding.constructor?.name];
  if (known === undefined || prototypes.has(main)) continue;
  prototypes.add(main);
  const [kind, methods] = known;
  for (const method of methods) {
    const detailOf = kind === 'd1' ? sqlOf : kind === 'ai' ? (_, [model]) => model : undefined;
    time(main, method, kind, (self) => `${names.get(self) ?? kind}.${method}`, detailOf);
  }
  if (kind === 'd1') {
    const statement = Object.getPrototypeOf(binding.prepare('SELECT 1'));
    for (const method of ['first', 'run', 'all', 'raw'])
      time(
        statement,
        method,
        'd1',
        () => method,
        (self) => self.statement,
      );
  }
}

/** Returns the kind of calls through a stub; null for a stub that workerd uses itself, such as D1's. */
function kindOf(stub) {
  if (stub.constructor.name === 'DurableObject') return 'object';
  return names.has(stub) || stub.constructor.name === 'LoopbackServiceStub' ? 'service' : null;
}

function nameOf(stub, method) {
  const binding = names.get(stub);
  return binding === undefined ? method : `${binding}.${method}`;
}

const { fetch: fetchStub } = ServiceStub.prototype;
ServiceStub.prototype.fetch = {
  fetch(...values) {
    const kind = kindOf(this);
    const call = kind === null ? null : begin(kind, nameOf(this, 'fetch'), addressOf(values[0]));
    const result = Reflect.apply(fetchStub, this, values);
    return call === null ? result : timed(call, result);
  },
}.fetch;

const { fetch: fetchOut, Request } = globalThis;
globalThis.fetch = {
  fetch(...values) {
    const call = begin('fetch', 'fetch', addressOf(values[0]));
    const result = fetchOut(...values);
    return call === null ? result : timed(call, result);
  },
}.fetch;

function addressOf(input) {
  return typeof input === 'string' ? input : input instanceof Request ? input.url : (input?.href ?? null);
}

/**
 * Times an RPC call of a Durable Object or a service. The app can read properties of the result from the call's promise, so no
 * other promise can replace it. Only its `then` is replaced: the end is noticed only if the app awaits the call.
 */
watcher.called = (stub, method, result) => {
  const call = begin(
    stub.constructor.name === 'DurableObject' ? 'object' : 'service',
    nameOf(stub, method),
    null,
  );
  const then = call === null ? undefined : result.then;
  if (typeof then !== 'function') return;
  Object.defineProperty(result, 'then', {
    configurable: true,
    value(done, failed) {
      const onDone = (value) => {
        end(call, false);
        return typeof done === 'function' ? done(value) : value;
      };
      const onFailed = (error) => {
        end(call, true);
        if (typeof failed === 'function') return failed(error);
        throw error;
      };
      return Reflect.apply(then, this, [onDone, onFailed]);
    },
  });
};

/** Reports the calls of an event, within the rate limit. Never throws. */
watcher.ended = (event) => {
  const { calls } = event;
  event.calls = REPORTED;
  if (calls === REPORTED) return;
  try {
    const now = Date.now();
    const shown = calls.map(({ kind, name, detail, startedAt, endedAt, failed }) => [
      kind,
      name,
      detail === null ? null : shownDetail(kind, String(detail)),
      startedAt,
      (endedAt ?? now) - startedAt,
      failed ? 1 : 0,
    ]);
    const isSlow = shown.some(([, , , , ms]) => ms >= SLOW_MS);
    if (mayReport(now, isSlow, lengthOf(shown))) reportCalls(event, shown);
  } catch {
    // For example a value that cannot become a string.
  }
};

/** Returns a call's detail for the report. Omits the user, query and fragment of an address, which may have secrets. */
function shownDetail(kind, detail) {
  const text =
    kind === 'd1' || kind === 'ai' ? detail : detail.replace(/[?#].*$/s, '').replace(/\/\/[^/]*@/, '//');
  return text.slice(0, DETAIL_LENGTH);
}

function lengthOf(calls) {
  return calls.reduce(
    (sum, [, name, detail]) => sum + CALL_LENGTH + name.length + (detail?.length ?? 0),
    EVENT_LENGTH,
  );
}

function mayReport(now, isSlow, length) {
  // The clock may have been set back.
  const passedS = Math.max(0, now - filledAt) / 1000;
  left = Math.min(LENGTH_SAVED, left + passedS * LENGTH_PER_S);
  filledAt = now;
  if (left < (isSlow ? 1 : SAVED_FOR_SLOW)) return false;
  left -= length;
  return true;
}
