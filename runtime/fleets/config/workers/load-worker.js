// Loads Durable Objects, so that the host can read their files. It calls a method that does not exist on the object. For
// this call, workerd fetches the object's storage, and runs only the constructor.
import { DurableObject } from 'cloudflare:workers';

const AT_ONCE = 16;

/**
 * Delay by which the alarm for expired KV keys is set again while the release has no KV namespace, in ms. Without this, the
 * alarm would be lost.
 */
const LATER_MS = 3_600_000;

/** Stand-ins for workerd's own classes that the release does not use. Objects can only be loaded if their class exists. */
export class D1Database extends DurableObject {}
export class KVNamespace extends DurableObject {
  async alarm() {
    await this.ctx.storage.setAlarm(Date.now() + LATER_MS);
  }
}

async function loadObject(object) {
  try {
    await object.cellarLoad();
  } catch (error) {
    if (error.overloaded || error.retryable) throw error;
  }
}

/** Reads a KV value to its end. This puts a large value into the cache on the disk. */
async function loadValue(namespace, key) {
  const value = await namespace.get(key, 'stream');
  await value?.pipeTo(new WritableStream());
}

export default {
  /**
   * Takes `{objects: {"<unique key>": ["<id>", …]}, value: null | {namespace, key}}`. Answers `{unbound}`: the unique keys
   * without a binding. If there are any, nothing is loaded.
   */
  async fetch(request, env) {
    const { objects, value } = await request.json();
    const wanted = Object.entries(objects).filter(([, ids]) => ids.length > 0);
    const unbound = wanted.map(([key]) => key).filter((key) => !Object.hasOwn(env, key));
    if (unbound.length > 0) return Response.json({ unbound });
    const left = wanted
      .flatMap(([key, ids]) => ids.map((id) => env[key].get(env[key].idFromString(id))))
      .values();
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (const object of left) await loadObject(object);
      }),
    );
    const namespace = value === null ? undefined : env[`kv:${value.namespace}`];
    if (namespace !== undefined) await loadValue(namespace, value.key);
    return Response.json({ unbound });
  },
};
