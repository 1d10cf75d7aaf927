// Reports to the host what the app throws and prints, its cron runs, e-mails and timed calls, each with the event's trace
// id. A report is a log line that begins with a marker and JSON.

import { currentEvent, eventOfRejection, readRequest, traceIdOf } from './cellar-events.js';

/** Prefix of a report. JSON for the host, one of two end markers, and the text follow. */
const MARK = '\u001ecellar ';
/** The end marker when a text follows. */
const END = '\u001e';
/** The end marker when the app's first value is not a text: `console` then puts a blank before the value. */
const END_WITH_BLANK = '\u001f';
/** Maximum length of a message, in characters. The host enforces limits of its own, because an app can print any report. */
const MESSAGE_LENGTH = 4_000;
/** Maximum length of a stack, in characters. */
const STACK_LENGTH = 8_000;
/** Maximum length of a request's path, in characters. */
const PATH_LENGTH = 1_000;
/** Maximum length of one printed text, in characters. */
const PRINTED_LENGTH = 32_000;
/**
 * Maximum characters of all strings in printed values. For larger values, `wrangler tail` shows the text instead of JSON.
 */
const VALUES_LENGTH = 4_000;
/** Maximum members of printed values. For more members, `wrangler tail` shows the text instead of JSON. */
const VALUES_MEMBERS = 500;
/** Maximum average rate of reported errors, per second. */
const ERRORS_PER_S = 50;
/** Maximum number of errors reported in a burst after a quiet time. */
const ERRORS_SAVED = 200;
/** Maximum number of errors in `thrown`. */
const REMEMBERED = 50;
/** Maximum number of causes that the stack of an error shows. */
const CAUSES = 3;

const print = { ...console };

/** Ids of reported errors, by the error object. */
const ids = new WeakMap();
/**
 * Ids of the latest reported errors, by text. An error that another object threw arrives here as a copy. The copy gets the
 * id of the original.
 */
const thrown = new Map();
let left = ERRORS_SAVED;
let filledAt = 0;
let unreported = 0;

/**
 * Reports an error to the host. Never throws.
 * @param mechanism how the error was noticed
 * @param event the error's event; undefined for none
 * @param printed prints the report's JSON with the app's own text; null when the app printed nothing
 * @returns whether it was reported
 */
export function report(error, mechanism, event = currentEvent(), printed = null) {
  try {
    if (!mayReport()) {
      unreported++;
      return false;
    }
    const head = {
      error: {
        ...described(error),
        mechanism,
        ...(unreported > 0 && { untold: unreported }),
        ...where(event),
      },
    };
    if (event !== undefined) head.trace_id = traceIdOf(event);
    unreported = 0;
    if (printed === null) print.error(marked(head, END) + (head.error.stack ?? head.error.message));
    else printed(textOf(head));
    return true;
  } catch {
    return false;
  }
}

/** Reports to the host what an event waited for: `[kind, name, detail, startedAt, durationMs, failed]` of each call. */
export function reportCalls(event, calls) {
  print.info(marked({ trace_id: traceIdOf(event), calls: [event.handler, ...calls] }, END));
}

function marked(head, end) {
  return MARK + textOf(head) + end;
}

/** Returns JSON with `%` escaped, because `console` interprets `%` in its first argument. */
function textOf(head) {
  return JSON.stringify(head).replaceAll('%', '\\u0025');
}

function mayReport() {
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

/**
 * Returns the id of an error. It is the same if the error is printed and thrown, or thrown by an object and by its caller.
 */
function idOf(error, words) {
  if (error === null || typeof error !== 'object') return shortId();
  let id = ids.get(error) ?? (error.remote === true ? thrown.get(words) : undefined);
  id ??= shortId();
  ids.set(error, id);
  thrown.delete(words);
  thrown.set(words, id);
  if (thrown.size > REMEMBERED) thrown.delete(thrown.keys().next().value);
  return id;
}

/** Returns a random id. Does not use `crypto`, whose random bytes are unavailable before the first event. */
function shortId() {
  return Math.random().toString(36).slice(2, 10);
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

/** The argument of `scheduled()` for a manual run, in place of workerd's own controller. */
export class ManualRun {
  type = 'scheduled';
  scheduledTime = Date.now();
  #ended = Promise.withResolvers();

  /** @param cron the cron's expression */
  constructor(cron) {
    this.cron = cron;
  }

  /** Resolves with the result for `crons.run` at the end of the run. Never rejects. */
  get ended() {
    return this.#ended.promise;
  }

  noRetry() {}

  static end(run, result) {
    if (#ended in run) run.#ended.resolve(result);
  }
}

/** E-mails that the host passed to the app, each with the reason given to `setReject()`; undefined before that call. */
export const rejections = new WeakMap();

/** Wraps the handlers `scheduled` and `email`, so that their runs are in the app's log. Returns other handlers unchanged. */
export function reported(name, handler) {
  if (name === 'scheduled') return reportedRun(handler);
  return name === 'email' ? reportedEmail(handler) : handler;
}

/** Wraps an `email` handler and reports each e-mail to the host when it was handled. */
function reportedEmail(email) {
  const run = async (self, message, others) => {
    const startedAt = Date.now();
    const running = currentEvent();
    // The app may change the message.
    const { from, to, rawSize } = message;
    const end = (level, how) => {
      const text = `email from ${from || 'nobody'} to ${to} ${how} after ${Date.now() - startedAt} ms`;
      const told = { mailFrom: from, rcptTo: to, rawSize, isOk: level === 'info' };
      const head = { email: told, ...(running !== undefined && { trace_id: traceIdOf(running) }) };
      print[level](marked(head, END) + cut(text.replace(/[^\x20-\x7e]+/g, ' '), MESSAGE_LENGTH));
    };
    try {
      await Reflect.apply(email, self, [message, ...others]);
      const rejection = rejections.get(message);
      end('info', rejection === undefined ? 'accepted' : `rejected (${rejection})`);
    } catch (error) {
      end('warn', 'failed');
      throw error;
    }
  };
  return function (message, ...others) {
    // Another method of the app that has the same name.
    if (!rejections.has(message)) return Reflect.apply(email, this, [message, ...others]);
    return run(this, message, others);
  };
}

/** Wraps a `scheduled` handler and reports each cron run to the host when it ends. */
function reportedRun(scheduled) {
  return function (event, ...others) {
    const { cron } = event ?? {};
    // Another method of the app that has the same name.
    if (typeof cron !== 'string' || typeof event.scheduledTime !== 'number')
      return Reflect.apply(scheduled, this, [event, ...others]);
    const running = currentEvent();
    const startedAt = Date.now();
    const end = (failure) => reportRun(event, running, startedAt, failure);
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

/** Reports a cron run that has ended. @param failure why the run failed; null on success */
function reportRun(event, running, startedAt, failure) {
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

for (const level of ['debug', 'error', 'info', 'log', 'warn']) {
  console[level] = {
    [level](...values) {
      const event = currentEvent();
      const error = level === 'error' ? values.find((value) => value instanceof Error) : undefined;
      for (let i = 0; i < values.length; i++)
        if (typeof values[i] === 'string') values[i] = cut(values[i], PRINTED_LENGTH);
      const json = jsonOf(values);
      const printReported = (head) =>
        printWith(level, json === null ? head : `${head.slice(0, -1)},"values":${json}}`, values);
      if (error !== undefined && report(error, 'console', event, printReported)) return;
      const members = [];
      if (event !== undefined) members.push(`"trace_id":"${traceIdOf(event)}"`);
      if (json !== null) members.push(`"values":${json}`);
      if (members.length === 0) print[level](...values);
      else printWith(level, `{${members}}`, values);
    },
  }[level];
}

/**
 * Returns printed values as JSON, as workerd gives them to a tail Worker; null for a single text, and for too large values.
 */
function jsonOf(values) {
  if (values.length === 1 && typeof values[0] === 'string') return null;
  let members = VALUES_MEMBERS;
  let isTooLarge = false;
  const bounded = (_, value) => {
    members -= typeof value === 'string' ? 1 + value.length / (VALUES_LENGTH / VALUES_MEMBERS) : 1;
    if (members >= 0) return value;
    isTooLarge = true;
    throw new RangeError('too large');
  };
  const json = [];
  for (const value of values) {
    try {
      json.push(valueJson(value, bounded));
    } catch {
      if (isTooLarge) return null;
      // For example a circular structure.
      json.push('{}');
    }
  }
  const text = `[${json}]`.replaceAll('%', '\\u0025');
  return text.length > 2 * VALUES_LENGTH ? null : text;
}

function valueJson(value, bounded) {
  if (ArrayBuffer.isView(value)) bounded('', ' '.repeat(Math.min(value.byteLength, VALUES_LENGTH + 1)));
  const isShown =
    value === null || (typeof value === 'object' ? isPlain(value) : !UNSHOWN.includes(typeof value));
  return JSON.stringify(isShown ? value : `${value}`, bounded) ?? 'null';
}

/** Types whose values become text in the JSON. */
const UNSHOWN = ['bigint', 'function', 'symbol'];

function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return (
    Array.isArray(value) ||
    prototype === null ||
    prototype === Object.prototype ||
    typeof value.toJSON === 'function'
  );
}

/** Prints values with a report's JSON before them. A first text may have placeholders such as `%s`, so it stays in front. */
function printWith(level, head, values) {
  const isText = typeof values[0] === 'string';
  if (isText) values[0] = MARK + head + END + values[0];
  else values.unshift(MARK + head + END_WITH_BLANK);
  print[level](...values);
}

// Without this wrapper, synchronous errors in a timer's callback reach no listener and no log.
for (const name of ['setTimeout', 'setInterval']) {
  const { [name]: set } = globalThis;
  globalThis[name] = {
    [name](callback, ...others) {
      if (typeof callback !== 'function') return Reflect.apply(set, globalThis, [callback, ...others]);
      const timed = function (...values) {
        try {
          return Reflect.apply(callback, this, values);
        } catch (error) {
          report(error, 'uncaught');
          throw error;
        }
      };
      return Reflect.apply(set, globalThis, [timed, ...others]);
    },
  }[name];
}

addEventListener('unhandledrejection', ({ reason }) => {
  if (!isOfInspect(reason)) report(reason, 'unhandledrejection', eventOfRejection());
});
addEventListener('error', ({ error }) => report(error, 'error event'));

/** Whether a rejection comes from workerd's own code: to print an object such as a stub, workerd calls its `entries`. */
function isOfInspect(reason) {
  return reason instanceof Error && /\bmaybeGetEntries \(node-internal:/.test(reason.stack);
}
