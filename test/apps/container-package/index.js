import { Container, getContainer } from '@cloudflare/containers';

/** A container by Cloudflare's own class, with its hooks. */
export class Shop extends Container {
  defaultPort = 8080;
  sleepAfter = '3s';
  enableInternet = false;
  entrypoint = ['/bin/node', '/server.js'];
  envVars = { NAME: 'the package' };

  onStart() {
    this.ctx.storage.kv.put('hooks', `${this.hooks()} start`);
  }
  onStop({ exitCode }) {
    this.ctx.storage.kv.put('hooks', `${this.hooks()} stop ${exitCode}`);
  }
  hooks() {
    return this.ctx.storage.kv.get('hooks') ?? '';
  }
}

export default {
  async fetch(request, env) {
    const shop = getContainer(env.SHOP, 'one');
    const { pathname } = new URL(request.url);
    if (pathname === '/hooks') return new Response(await shop.hooks());
    if (pathname === '/state') return new Response((await shop.getState()).status);
    return shop.fetch(request);
  },
};
