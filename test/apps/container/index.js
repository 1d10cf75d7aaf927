import { DurableObject } from 'cloudflare:workers';

/** An object with a container; the path says what to do with it. */
export class Box extends DurableObject {
  async fetch(request) {
    const { container } = this.ctx;
    const { pathname, searchParams } = new URL(request.url);
    if (container === undefined) return new Response('no container', { status: 503 });
    try {
      return await this.act(container, pathname, searchParams, request);
    } catch (error) {
      return new Response(String(error.message), { status: 500 });
    }
  }

  async act(container, path, parameters, request) {
    switch (path) {
      case '/start': {
        const options = await request.json();
        container.start({ enableInternet: false, ...options });
        this.exit = container.monitor().then(
          () => 'exit 0',
          (error) => `exit ${error.exitCode ?? error.message}`,
        );
        this.ctx.waitUntil(this.exit);
        return new Response('started');
      }
      case '/running':
        return new Response(String(container.running));
      case '/exit':
        return new Response(await this.exit);
      case '/destroy':
        await container.destroy();
        return new Response('destroyed');
      case '/signal':
        container.signal(Number(parameters.get('signal')));
        return new Response('sent');
      case '/abort':
        this.ctx.abort('ended by the app');
        break;
      default:
        return this.ask(container, Number(parameters.get('port') ?? 8080), request);
    }
  }

  /** Passes the request to the container, which may not listen yet. */
  async ask(container, port, request) {
    for (let tries = 0; ; tries++) {
      try {
        return await container
          .getTcpPort(port)
          .fetch(new Request(request.url.replace('https:', 'http:'), request));
      } catch (error) {
        if (tries === 50 || !/not listening/.test(error.message)) throw error;
        await scheduler.wait(100);
      }
    }
  }
}

export default {
  fetch(request, env) {
    const name = request.headers.get('box') ?? 'one';
    return env.BOX.getByName(name).fetch(request);
  },
};
