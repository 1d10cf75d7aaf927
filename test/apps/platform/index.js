// A platform that runs its customers' Workers: the first part of the path names the customer.

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const [, customer, ...rest] = url.pathname.split('/');
    url.pathname = rest.join('/');
    try {
      const limits = { cpuMs: 50, subRequests: 10 };
      return await env.DISPATCHER.get(decodeURIComponent(customer), {}, { limits }).fetch(
        new Request(url, request),
      );
    } catch (error) {
      if (error.message === 'Worker not found.') return new Response('no such customer', { status: 404 });
      return new Response(`${error.name}: ${error.message}`, { status: 500 });
    }
  },
};
