// Answers with the image at `url`, transformed by the JSON of `options`. `/request` gives them in the request, `/object` fetches in
// a Durable Object. `/bindings` lists what the Worker's code can see.
import { DurableObject, env as imported } from 'cloudflare:workers';

export class Pictures extends DurableObject {
  fetch(request) {
    return transform(request);
  }

  names() {
    return [...Object.keys(this.env), ...Object.keys(imported)];
  }
}

function transform(request) {
  const { pathname, searchParams } = new URL(request.url);
  const image = JSON.parse(searchParams.get('options'));
  const init = { headers: request.headers, cf: { image } };
  const url = searchParams.get('url');
  return pathname === '/request' ? fetch(new Request(url, init)) : fetch(url, init);
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    const object = env.PICTURES.getByName('one');
    if (pathname === '/object') return object.fetch(request);
    if (pathname === '/bindings') return Response.json([...Object.keys(env), ...(await object.names())]);
    return transform(request);
  },
};
