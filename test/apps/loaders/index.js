// Runs code that it gets: POST a module's text to a path, and a Worker made of it answers. The query:
// `id`: name of the Worker, which is loaded once; without it, a new one is loaded.
// `out`: what its fetch() reaches: `app` (as the app), `nothing`, or `gate` (the entrypoint Gate).
// `/keep` runs the class Kept of the code as a facet of a Durable Object.
import { DurableObject, WorkerEntrypoint, waitUntil } from 'cloudflare:workers';

const DATE = '2026-10-01';
/** The code of a Worker with a class, as text. Its import is not one of this module. */
const ADDER = `
import { WorkerEntrypoint } from 'cloudflare:workers';
export class Adder extends WorkerEntrypoint {
  add(a, b) { return a + b + this.ctx.props.more; }
}`;

/** What loaded Workers may do in this app's name. */
export class Gate extends WorkerEntrypoint {
  fetch(request) {
    return new Response(`the gate for ${this.ctx.props.who} got ${request.url}`);
  }

  greet(name) {
    return `hello ${name}, from ${this.ctx.props.who}`;
  }
}

export class Keeper extends DurableObject {
  async keep(code) {
    const worker = this.env.LOADER.load(described(code, {}));
    const facet = this.ctx.facets.get('kept', () => ({ class: worker.getDurableObjectClass('Kept') }));
    return facet.add();
  }
}

function described(code, more) {
  return { compatibilityDate: DATE, mainModule: 'main.js', modules: { 'main.js': code }, ...more };
}

export default {
  async fetch(request, env, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === '/add') {
      waitUntil(Promise.resolve());
      const worker = env.LOADER.load(described(ADDER, {}));
      return Response.json(await worker.getEntrypoint('Adder', { props: { more: 100 } }).add(1, 2));
    }
    const code = await request.text();
    if (pathname === '/keep') return Response.json(await env.KEEPER.getByName('one').keep(code));
    const gate = ctx.exports.Gate({ props: { who: 'a guest' } });
    const out = { app: {}, nothing: { globalOutbound: null }, gate: { globalOutbound: gate } };
    const more = { env: { GATE: gate, WORD: 'given' }, ...out[searchParams.get('out') ?? 'app'] };
    const id = searchParams.get('id');
    const worker =
      id === null
        ? env.LOADER.load(described(code, more))
        : env.LOADER.get(id, async () => described(code, more));
    return worker.getEntrypoint().fetch(new Request(request.url));
  },
};
