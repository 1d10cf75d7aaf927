// An app with several processes, which form a cluster and keep their data in a store of the test.
import type { TestContext } from 'node:test';
import { clusterIn } from '../bucket/clusters.ts';
import type { MemoryStore } from '../bucket/memory-store.ts';
import { type Harness, harness } from './harness.ts';

/** `/who` names the process, `/add` counts in a Durable Object, `/row` in D1. */
export const COUNTING = (version: number) => `
import { DurableObject } from 'cloudflare:workers';
let me;
export class Counter extends DurableObject {
  async add() {
    const n = ((await this.ctx.storage.get('n')) ?? 0) + 1;
    await this.ctx.storage.put('n', n);
    return n;
  }
}
export default {
  async fetch(request, env) {
    me ??= crypto.randomUUID();
    const { pathname } = new URL(request.url);
    if (pathname === '/who') {
      await scheduler.wait(100);
      return new Response(me);
    }
    if (pathname === '/version') return new Response('${version}');
    if (pathname === '/add') return new Response(String(await env.COUNTER.getByName('one').add()));
    await env.DB.prepare('INSERT INTO hits VALUES (1)').run();
    return new Response(String(await env.DB.prepare('SELECT count(*) AS n FROM hits').first('n')));
  },
};`;

/** Starts an app with several processes. */
export async function hot(t: TestContext, store: MemoryStore, processes: number): Promise<Harness> {
  const app = harness(t, { cluster: clusterIn(store) });
  app.fleet.scale(processes);
  await app.fleet.start(await app.release(1, { code: COUNTING(1) }));
  await app.until(() => app.fleet.processes === processes);
  return app;
}

/** Sends `count` requests to `path`, at most `atOnce` at the same time. A failed request gives status 502. */
export async function askMany({ ask }: Harness, path: string, count: number, atOnce: number) {
  const answers: { status: number; text: string }[] = [];
  let left = count;
  const loop = async () => {
    while (left-- > 0) answers.push(await ask(path).catch(() => ({ status: 502, text: '' })));
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
  return answers;
}

export async function whoServes(app: Harness): Promise<string[]> {
  const answers = await askMany(app, '/who', 24, 24);
  return [...new Set(answers.map(({ text }) => text))].sort();
}
