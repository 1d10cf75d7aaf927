// An app's queues: workerd's own queues, with errors that name the limit, and an entrypoint for other apps of the owner.

import { env, WorkerEntrypoint } from 'cloudflare:workers';
import queues, { QueueShard as Bundled } from './queues.js';

/** The header in which the host names the queue, as JSON. */
const CALL_HEADER = 'x-cellar-call';
const DELAY_HEADER = 'X-Msg-Delay-Secs';
/** Maximum delay of a message, in s, as on Cloudflare. */
const MAX_DELAY_S = 86_400;
/** Cloudflare's error codes. */
const CODES = { batchDelay: 10202, messageDelay: 10203, overloaded: 10250, unknown: 15000 };
/** By the start of workerd's refusal: the error code, and the limit that the refusal does not name. */
const LIMITS = [
  ['message length', 10204, ' of 128000 bytes'],
  ['message in batch', 10204, ' of 128000 bytes'],
  ['batch message count', 10206, ' of 100 messages'],
  ['batch size', 10205, ' of 256000 bytes'],
  ['Queue is overloaded', CODES.overloaded, ''],
];

/**
 * A trigger that makes a dead letter due at once. workerd alone would first wait for `retry_delay` after the last attempt. A
 * dead letter whose sending failed keeps its delay, because `dead` does not change again.
 */
const DEAD_LETTERS_AT_ONCE = `
CREATE TRIGGER IF NOT EXISTS cellar_dead AFTER UPDATE OF dead ON messages WHEN NEW.dead = 1 AND OLD.dead = 0
BEGIN UPDATE messages SET visible_at = timestamp WHERE seq = NEW.seq; END`;

/** Key of a value that a shard stores when the host ends the process. */
const ENDING = 'cellar ending';
/** Ids of the shards whose alarm runs. Only these have unfinished batches. */
const running = new Set();
/** Whether the host ends this process. */
let isEnding = false;

export class QueueShard extends Bundled {
  /** Ids of the letters that another app has taken, of sendings that failed afterwards. */
  #taken = new Set();

  constructor(context, env) {
    const { kv, sql } = context.storage;
    // `super` counts an attempt for each message of an unfinished batch. A batch that the host interrupted must not count.
    if (kv.delete(ENDING)) sql.exec('UPDATE messages SET attempts = attempts - 1 WHERE lease IS NOT NULL');
    super(context, env);
    sql.exec(DEAD_LETTERS_AT_ONCE);
  }

  async alarm() {
    const id = this.ctx.id.toString();
    running.add(id);
    if (isEnding) this.noteEnd();
    try {
      await super.alarm();
    } finally {
      running.delete(id);
    }
  }

  /** Records that the host ends the process, so that the batches it interrupts do not count as attempts. */
  noteEnd() {
    this.ctx.storage.kv.put(ENDING, true);
  }

  /** Takes messages. Dead letters go to the app that consumes their queue. Without one, they stay here. */
  async call(queue, op, format, delay, body) {
    const elsewhere = op === '/dead' ? this.env[`elsewhere ${queue}`] : undefined;
    if (elsewhere === undefined) return super.call(queue, op, format, delay, body);
    const left = await this.#passOn(elsewhere, queue, body);
    if (left.length > 0) return super.call(queue, op, format, delay, left);
    return super.call(queue, '/metrics', format, delay, null);
  }

  /**
   * Sends dead letters to the app that consumes their queue. Returns the letters that stay here: all that are left if no app
   * or several apps consume the queue.
   * @throws {Error} if that app cannot take them now; workerd sends all of them again later
   */
  async #passOn(service, queue, letters) {
    // One by one, because the letters together may exceed the limit of a batch.
    for (const { id, contentType, body } of letters) {
      if (this.#taken.has(id)) continue;
      const headers = { 'X-Msg-Fmt': contentType };
      const { status } = await service.fetch('http://queue/message', { method: 'POST', headers, body });
      if (status === 404 || status === 409) break;
      if (status !== 200) throw new Error(`the app that consumes the queue ${queue} answered ${status}`);
      this.#taken.add(id);
    }
    const left = letters.filter(({ id }) => !this.#taken.has(id));
    for (const { id } of letters) this.#taken.delete(id);
    return left;
  }
}

/** Sends messages to a queue. Returns a refusal whose cause and code the queue binding uses for its error. */
async function send(request, context) {
  const wrong = await wrongDelay(request);
  if (wrong !== null) {
    // Reads the body, because an unread body ends the connection, and the error would be lost.
    await request.arrayBuffer();
    const [code, delay] = wrong;
    return refusal(400, code, `delay of ${delay} s is out of range: 0 to ${MAX_DELAY_S} s`);
  }
  const response = await queues.fetch(request, env, context);
  if (response.ok) return response;
  const message = String(await response.json());
  const [, code, limit] = LIMITS.find(([beginning]) => message.startsWith(beginning)) ?? [
    '',
    CODES.unknown,
    '',
  ];
  return refusal(response.status, code, message + limit);
}

/**
 * Returns a refusal. Before compatibility date 2026-02-17, the binding's error has the status text; later, the two headers.
 */
function refusal(status, code, cause) {
  const headers = { 'CF-Queues-Error-Code': String(code), 'CF-Queues-Error-Cause': cause };
  return new Response(null, { status, statusText: cause, headers });
}

/** Returns the error code and the delay of the first delay that is out of range; null if none is. */
async function wrongDelay(request) {
  const isWrong = (delay) => !(delay >= 0 && delay <= MAX_DELAY_S);
  const isBatch = new URL(request.url).pathname === '/batch';
  const all = Number(request.headers.get(DELAY_HEADER) ?? 0);
  if (isWrong(all)) return [isBatch ? CODES.batchDelay : CODES.messageDelay, all];
  if (!isBatch) return null;
  const text = await request.clone().text();
  // Bodies are base64, so a message has this text only as a key.
  if (!text.includes('"delaySecs"')) return null;
  const found = JSON.parse(text).messages.find(({ delaySecs = 0 }) => isWrong(delaySecs));
  return found ? [CODES.messageDelay, found.delaySecs] : null;
}

export default { fetch: (request, _env, context) => send(request, context) };

export class QueueEntrypoint extends WorkerEntrypoint {
  /** Takes a message of another app. A request without `CALL_HEADER` comes from the host, which is about to end the process. */
  async fetch(request) {
    const call = request.headers.get(CALL_HEADER);
    if (call === null) {
      isEnding = true;
      await Promise.all([...running].map((id) => env.SHARD.get(env.SHARD.idFromString(id)).noteEnd()));
      return new Response(null, { status: 204 });
    }
    const { queue } = JSON.parse(call);
    if (!Object.hasOwn(env.CONSUMERS, queue))
      return new Response('The queue has no consumer.', { status: 404 });
    return send(request, { props: { queue } });
  }
}
