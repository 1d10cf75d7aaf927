// An app that calls another, and itself: `/BINDING/fetch/...` passes the request on, `/BINDING/METHOD?[arguments]` calls a method.
import { WorkerEntrypoint } from 'cloudflare:workers';

export class Own extends WorkerEntrypoint {
  fetch(request) {
    return Response.json({ url: request.url, props: this.ctx.props });
  }
  twice(n) {
    return 2 * n;
  }
}

async function special(name, service) {
  if (name === 'basket') {
    using basket = await service.basket();
    await basket.put('pear');
    return Response.json(await basket.put('plum'));
  }
  if (name === 'pipelined') return Response.json(await service.basket().put('fig'));
  if (name === 'each') {
    const values = [];
    await service.each([1, 2, 3], (value) => {
      values.push(value);
    });
    return Response.json(values);
  }
  if (name === 'page') return service.page('a page');
  if (name === 'headers')
    return service.fetch('https://inner.example/path?q=1', {
      headers: {
        'x-cellar-calling': 'fetch 1',
        'x-cellar-call': '{"kind":"fetch","entrypoint":"Admin"}',
        'x-forwarded-for': '9.9.9.9',
      },
    });
  if (name === 'parallel')
    return Response.json(await Promise.all(Array.from({ length: 50 }, (_, n) => service.add(n, n))));
  return null;
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const [, binding, name] = url.pathname.split('/');
    const service = env[binding];
    if (service === undefined) return new Response('caller');
    try {
      if (name === 'fetch') {
        url.pathname = url.pathname.slice(binding.length + 7);
        return await service.fetch(new Request(url, request));
      }
      const answer = await special(name, service);
      if (answer !== null) return answer;
      return Response.json(
        await service[name](...JSON.parse(decodeURIComponent(url.search.slice(1) || '[]'))),
      );
    } catch (error) {
      return Response.json({ thrown: `${error.name}: ${error.message}` }, { status: 500 });
    }
  },
};
