// Opens Durable Objects of any class, so that workerd fetches or creates their storage. Runs none of the app's code.
import { DurableObject } from 'cloudflare:workers';

const AT_ONCE = 16;
const FOREVER_MS = 2 ** 31 - 1;

/** Stands in for the class of every namespace. */
export class Opened extends DurableObject {
  /** Never ends: workerd would remove an alarm whose handler has ended. The app's next process runs the alarm again. */
  async alarm() {
    await scheduler.wait(FOREVER_MS);
  }
}

function idOf(namespace, object) {
  return typeof object === 'string' ? namespace.idFromName(object) : namespace.idFromString(object.id);
}

async function open(object) {
  try {
    await object.cellarOpen();
  } catch (error) {
    // No class has this method: workerd looks for it once the object has its storage.
    if (!/does not implement the method "cellarOpen"/.test(error.message)) throw error;
  }
}

export default {
  /**
   * The body: `{objects: {"<unique key>": […]}, fresh: ["<unique key>", …]}`. An object is its name, or `{id}`: workerd
   * stores the alarm of an object with the name that it was opened by. Also creates an object in each namespace of `fresh`,
   * and responds with their ids.
   */
  async fetch(request, env) {
    const { objects, fresh } = await request.json();
    const made = Object.fromEntries(fresh.map((key) => [key, env[key].newUniqueId()]));
    const all = [
      ...Object.entries(objects).flatMap(([key, ids]) => ids.map((object) => [key, idOf(env[key], object)])),
      ...Object.entries(made),
    ].values();
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (const [key, id] of all) await open(env[key].get(id));
      }),
    );
    return Response.json(Object.fromEntries(Object.entries(made).map(([key, id]) => [key, id.toString()])));
  },
};
