// Sends the events of the app's Worker to its tail Workers, in batches. Each tail Worker has a bounded queue, so that the
// app never waits. An event is sent at most once.

import { env } from 'cloudflare:workers';

/** Prefix of the JSON that Cellar's modules print before a text of the app, or alone. See `cellar-error-reporter.js`. */
const MARK = '\u001ecellar ';
/** The end marker of this JSON when a text of the app follows in the same argument. */
const END = '\u001e';
/** The end marker of this JSON when all that the app printed is in later arguments. */
const END_WITHOUT_TEXT = '\u001f';
/** Frames of Cellar's own modules in a stack. */
const OWN_FRAME = /\n? +at [^\n]*\bcellar-[\w-]+\.js:\d+:\d+\)?(?=\n|$)/g;
/** Exports of Cellar's entry module for the host. Their events are Cellar's own. */
const OWN_EXPORTS = ['CellarState', 'CellarCache'];

/** The usual reason for dropping events. */
const TOO_MANY = 'too many events wait for it';
/** How long a batch collects events, in ms. */
const COLLECT_MS = 200;
/** Time that `fetch` waits for events of requests that have just ended, in ms. */
const SETTLE_MS = 20;
/** How often `flush` checks for answers, in ms. */
const LOOK_MS = 10;
/** Maximum number of events that wait for one tail Worker. A batch may have all of them. */
const WAITING_EVENTS = 1_000;
/** Maximum length of the events that wait for one tail Worker as JSON, in characters. A batch may have all of them. */
const WAITING_LENGTH = 2 * 2 ** 20;
/** Longest wait for a tail Worker, its wake included, in ms. */
const ANSWER_MS = 60_000;
/** For each tail Worker, the app's log gets at most one warning in this time, in ms. */
const WARNING_MS = 60_000;
/** Maximum number of bytes of a refusal that are read. */
const REASON_BYTES = 1_000;

/** One tail Worker, and the events that wait for it. */
class Consumer {
  #name;
  #service;
  #waiting = [];
  #length = 0;
  #isSending = false;
  /** Number of batches that have no answer yet. */
  #posts = 0;
  #isFull = false;
  #dropped = 0;
  #reason = '';
  #warnedAt = 0;
  #isWarning = false;

  constructor(name, service) {
    this.#name = name;
    this.#service = service;
  }

  /**
   * Whether an event was dropped since the last batch was taken. Then all events are dropped until the next batch is taken.
   */
  get isFull() {
    return this.#isFull;
  }

  /** Queues an event. Unless batches are being sent already, begins to send them within the event's `context`. */
  add(text, context) {
    if (text.length > WAITING_LENGTH) return this.drop(1, 'an event has too much text', context);
    this.#isFull ||= this.#waiting.length === WAITING_EVENTS || this.#length + text.length > WAITING_LENGTH;
    if (this.#isFull) return this.drop(1, TOO_MANY, context);
    this.#waiting.push(text);
    this.#length += text.length;
    if (this.#isSending) return;
    this.#isSending = true;
    context.waitUntil(this.#send(context));
  }

  drop(events, reason, context) {
    this.#dropped += events;
    this.#reason = reason;
    if (this.#isWarning) return;
    this.#isWarning = true;
    context.waitUntil(this.#warn());
  }

  async #send(context) {
    try {
      while (this.#waiting.length > 0) {
        await scheduler.wait(COLLECT_MS);
        await this.#sendBatch(context);
      }
    } finally {
      this.#isSending = false;
    }
  }

  async #sendBatch(context) {
    const batch = this.#waiting;
    // `flush` may have sent the batch.
    if (batch.length === 0) return;
    this.#waiting = [];
    this.#length = 0;
    this.#isFull = false;
    this.#posts++;
    const reason = await post(this.#service, `[${batch}]`);
    this.#posts--;
    if (reason !== null) this.drop(batch.length, reason, context);
  }

  /** Sends the waiting events at once. Resolves when all batches are answered. Then the process may end. */
  async flush(context) {
    await this.#sendBatch(context);
    while (this.#posts > 0) await scheduler.wait(LOOK_MS);
    if (this.#dropped > 0) this.#say();
  }

  /** Warns at once, or when `WARNING_MS` have passed since the previous warning. */
  async #warn() {
    await scheduler.wait(Math.max(0, this.#warnedAt + WARNING_MS - Date.now()));
    this.#warnedAt = Date.now();
    this.#isWarning = false;
    this.#say();
  }

  #say() {
    console.warn(
      `tail_consumers: ${this.#dropped} events did not reach the app ${this.#name}: ${this.#reason}`,
    );
    this.#dropped = 0;
  }
}

const consumers = env.CONSUMERS.map((name, index) => new Consumer(name, env[`tail ${index}`]));

export default {
  tail(events, _env, context) {
    for (const event of events) send(event, context);
  },
  /** The host calls this before it ends the process. Sends the waiting events to the tail Workers, then answers. */
  async fetch(_request, _env, context) {
    await scheduler.wait(SETTLE_MS);
    await Promise.all(consumers.map((consumer) => consumer.flush(context)));
    return new Response(null, { status: 204 });
  },
};

/** Puts an event into the queues of all tail Workers. */
function send(event, context) {
  // Saves the costly JSON when all queues are full. Events of Cellar's own exports do not count: `jsonOf` omits most of
  // them.
  if (consumers.every(({ isFull }) => isFull) && !OWN_EXPORTS.includes(event.entrypoint))
    return dropForAll(TOO_MANY, context);
  try {
    const text = jsonOf(event);
    if (text !== null) for (const consumer of consumers) consumer.add(text, context);
  } catch (error) {
    dropForAll(error.message, context);
  }
}

function dropForAll(reason, context) {
  for (const consumer of consumers) consumer.drop(1, reason, context);
}

/** Sends a batch. @returns why the events did not arrive; null if they did */
async function post(service, body) {
  try {
    const headers = { 'content-type': 'application/json' };
    const signal = AbortSignal.timeout(ANSWER_MS);
    const answer = await service.fetch('http://tail/', { method: 'POST', headers, body, signal });
    if (!answer.ok) return await reasonOf(answer);
    await answer.body?.cancel();
    return null;
  } catch (error) {
    return error.message;
  }
}

/** Returns the reason in a refusal. Reads only the start of its body, because the other app may answer anything. */
async function reasonOf({ body, status }) {
  const reader = body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  await reader?.cancel();
  const text = new TextDecoder().decode(value?.subarray(0, REASON_BYTES));
  try {
    return String(JSON.parse(text).detail);
  } catch {
    return `it answered ${status}`;
  }
}

/** Returns an event as JSON; null for an event of Cellar's own that ran no handler of the app. */
function jsonOf(item) {
  const reports = [];
  const logs = item.logs.flatMap((log) => logOf(log, reports));
  const isOwn = OWN_EXPORTS.includes(item.entrypoint);
  const ran = isOwn ? ranBy(reports) : undefined;
  if (isOwn && ran === undefined) return null;
  const { request } = item.event ?? {};
  const passed = {
    ...item,
    // workerd's own events have no wall time.
    wallTime: Date.now() - (item.eventTimestamp ?? Date.now()),
    scriptVersion: env.VERSION,
    logs,
    exceptions: item.exceptions.map((each) => ({
      ...each,
      ...(each.stack && { stack: stackOf(each.stack) }),
    })),
    ...(ran && { ...ran, entrypoint: undefined, exceptions: exceptionsOf(reports) }),
    ...(request && !ran && { unredacted: unredactedOf(request) }),
  };
  return (
    stringified(passed) ?? JSON.stringify({ ...passed, diagnosticsChannelEvents: channelEventsOf(item) })
  );
}

/** Returns an event's diagnostics channel events. A message without a JSON form, such as a bigint, becomes null. */
function channelEventsOf({ diagnosticsChannelEvents }) {
  return diagnosticsChannelEvents.map((each) =>
    stringified(each) === null ? { ...each, message: null } : each,
  );
}

/** Returns a value as JSON; null for a value without a JSON form. */
function stringified(value) {
  try {
    return JSON.stringify(value);
  } catch {
    return null;
  }
}

/** Returns a log line without the JSON of Cellar's modules; nothing for a report, which is added to `reports`. */
function logOf(log, reports) {
  const [first, ...others] = log.message;
  const errorInfo = log.errorInfo?.map((each) => each && { ...each, stack: stackOf(each.stack ?? '') });
  const passed = { ...log, ...(errorInfo && { errorInfo }) };
  const marked = markedText(first);
  if (marked === null) return [passed];
  const { head, text } = marked;
  if (head.run || head.email || head.calls || (head.error && head.error.mechanism !== 'console')) {
    reports.push({ ...head, timestamp: log.timestamp });
    return [];
  }
  if (text !== null) return [{ ...passed, message: [text, ...others] }];
  return [{ ...passed, message: others, ...(errorInfo && { errorInfo: errorInfo.slice(1) }) }];
}

/**
 * Divides a text into Cellar's JSON (`head`) and the app's own text, which is null if missing. Returns null without such
 * JSON.
 */
function markedText(text) {
  if (typeof text !== 'string' || !text.startsWith(MARK)) return null;
  const [at] = [END, END_WITHOUT_TEXT]
    .map((end) => text.indexOf(end, MARK.length))
    .filter((found) => found !== -1)
    .sort((a, b) => a - b);
  if (at === undefined) return null;
  return { head: parsed(text.slice(MARK.length, at)), text: text[at] === END ? text.slice(at + 1) : null };
}

function stackOf(stack) {
  return stack.replace(OWN_FRAME, '');
}

/**
 * Returns the event of the handler that a call by the host ran: of a manual cron run, or of an e-mail. Undefined for other
 * calls.
 */
function ranBy(reports) {
  const { run, email } = reports.find(({ run, email }) => run?.trigger === 'manual' || email) ?? {};
  if (email) {
    const { isOk, ...event } = email;
    return { event, outcome: outcomeOf(isOk) };
  }
  return (
    run && {
      event: { cron: run.cron, scheduledTime: run.started_at },
      outcome: outcomeOf(run.outcome === 'ok'),
    }
  );
}

function outcomeOf(isOk) {
  return isOk ? 'ok' : 'exception';
}

function exceptionsOf(reports) {
  return reports.flatMap(({ error, timestamp }) =>
    error ? { name: error.type, message: error.message, stack: stackOf(framesOf(error)), timestamp } : [],
  );
}

/** Returns the frames of a stack, without the message before them. */
function framesOf({ stack }) {
  const at = stack?.search(/^ +at /m) ?? -1;
  return at === -1 ? '' : stack.slice(at);
}

/** Returns the complete address and headers of a request. By default, workerd hides values that may be secrets. */
function unredactedOf(request) {
  const { url, headers } = request.getUnredacted();
  return { url, headers };
}

function parsed(json) {
  try {
    return JSON.parse(json) ?? {};
  } catch {
    return {};
  }
}
