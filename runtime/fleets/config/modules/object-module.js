// Stand-ins for Durable Objects of another app, in the workerd process of the calling app. A stand-in has the id of the
// other app's object and no data, and forwards calls.

import { DurableObject } from 'cloudflare:workers';
import { connect, fetchOrThrow, forwarding } from './cellar-service.js';

/** The header that names the called object. The host reads it. */
const OBJECT_HEADER = 'x-cellar-object';
/** Maximum length of an object's name that is sent, in characters. Longer names exceed Cloudflare's limit of 1,024 bytes. */
const NAME_LENGTH = 1_024;

/** Returns the class of stand-ins for the objects of a binding. @param index the binding's number */
export function objectsOf(index) {
  return class extends DurableObject {
    constructor(context, env) {
      super(context, env);
      const { id } = context;
      const headers = {
        [OBJECT_HEADER]: asciiJson({
          id: String(id),
          ...(id.name?.length <= NAME_LENGTH && { name: id.name }),
        }),
      };
      // biome-ignore lint/correctness/noConstructorReturn: an object has every method, and only the other app knows them.
      return forwarding(this, {
        fetch: (request) => fetchObject(env[`fetch ${index}`], request, headers),
        connect: (more) => connect(env[`rpc ${index}`], { ...headers, ...more }),
        context,
      });
    }
  };
}

async function fetchObject(service, request, headers) {
  const passed = new Request(request);
  for (const [name, value] of Object.entries(headers)) passed.headers.set(name, value);
  return fetchOrThrow(service, passed);
}

function asciiJson(value) {
  return JSON.stringify(value).replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
