// Adapts a script in the syntax of service workers, `addEventListener('fetch', …)`, to a module. Sets bindings as globals,
// and calls the listeners from the module's handlers. `serviceWorkerEntry` imports this file before the script.
import { env } from 'cloudflare:workers';

const HANDLED = ['fetch', 'scheduled', 'queue'];
const listeners = new Map();
const listen = globalThis.addEventListener.bind(globalThis);
globalThis.addEventListener = (type, listener, ...rest) => {
  if (!HANDLED.includes(type)) return listen(type, listener, ...rest);
  listeners.set(type, [...(listeners.get(type) ?? []), listener]);
};
Object.assign(globalThis, env);

class WorkerEvent extends Event {
  #context;

  constructor(type, context, fields) {
    super(type);
    this.#context = context;
    Object.assign(this, fields);
  }

  waitUntil(promise) {
    this.#context.waitUntil(promise);
  }
}

class FetchEvent extends WorkerEvent {
  #context;
  answer = null;

  constructor(request, context) {
    super('fetch', context, { request });
    this.#context = context;
  }

  respondWith(response) {
    if (this.answer !== null) throw new TypeError('respondWith() was called already');
    this.answer = Promise.resolve(response);
  }

  passThroughOnException() {
    this.#context.passThroughOnException();
  }
}

function call(listener, event) {
  return typeof listener === 'function' ? listener.call(globalThis, event) : listener.handleEvent(event);
}

const handlers = {
  async fetch(request, _env, context) {
    const event = new FetchEvent(request, context);
    for (const listener of listeners.get('fetch')) {
      call(listener, event);
      if (event.answer !== null) return event.answer;
    }
    throw new TypeError('no listener of "fetch" called respondWith() before it returned');
  },
  async scheduled(controller, _env, context) {
    const { scheduledTime, cron } = controller;
    const event = new WorkerEvent('scheduled', context, {
      scheduledTime,
      cron,
      noRetry: () => controller.noRetry(),
    });
    await Promise.all(listeners.get('scheduled').map((listener) => call(listener, event)));
  },
  async queue(batch, _env, context) {
    const { queue, messages } = batch;
    const all = { ackAll: () => batch.ackAll(), retryAll: (options) => batch.retryAll(options) };
    const event = new WorkerEvent('queue', context, { queue, messages, ...all });
    await Promise.all(listeners.get('queue').map((listener) => call(listener, event)));
  },
};

/** Returns the handlers for event types that have a listener. */
export function heard() {
  return Object.fromEntries(Object.entries(handlers).filter(([type]) => listeners.has(type)));
}
