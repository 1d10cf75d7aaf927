// Loads what the host is about to read: a call of a method that no object has makes workerd fetch the object's storage, and runs
// nothing but its constructor.
import { DurableObject } from 'cloudflare:workers';

const AT_ONCE = 16;

/** They stand for workerd's own classes where the release does not use them: their storage is still there to be read. */
class Stored extends DurableObject {}
export class D1Database extends Stored {}
export class KVNamespace extends Stored {}
export class QueueShard extends Stored {}
export class Schedule extends Stored {}

async function loadObject(object) {
  try {
    await object.cellarLoad();
  } catch (error) {
    if (error.overloaded || error.retryable) throw error;
  }
}

/** Reads a value to its end, which puts a large one into the cache on the disk. */
async function loadValue(namespace, key) {
  const value = await namespace.get(key, 'stream');
  await value?.pipeTo(new WritableStream());
}

export default {
  /** The body: `{objects: {"<unique key>": ["<id>", …]}, value: null | {namespace, key}}`. Answers the unknown unique keys. */
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
