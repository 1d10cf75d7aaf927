// A project with data for each view of the control UI: it stores data, prints, throws, and answers slowly.

/** The slug of the shop's app. */
export const SHOP = 'shop';

/** The shop's files. `/fill` stores data of each kind, `/broken` throws, `/slow` takes 1.1 s, `/print` prints lines. */
export const shopFiles = (greeting = 'open'): Record<string, string> => ({
  'wrangler.toml': `name = "shop"
main = "main.ts"
compatibility_date = "2026-10-01"
[[d1_databases]]
binding = "DB"
database_name = "orders"
database_id = "orders"
[[kv_namespaces]]
binding = "KV"
id = "carts"
[[r2_buckets]]
binding = "FILES"
bucket_name = "pictures"
[[durable_objects.bindings]]
name = "ROOM"
class_name = "Room"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room"]
[[workflows]]
binding = "ORDERS"
name = "orders"
class_name = "Order"
`,
  'main.ts': `import { DurableObject, WorkflowEntrypoint } from 'cloudflare:workers';
import { price } from './src/price.ts';

export class Room extends DurableObject {
  async enter(name: string) {
    await this.ctx.storage.put('visitor', { name, at: new Date() });
    this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS said (line TEXT)');
    this.ctx.storage.sql.exec('INSERT INTO said VALUES (?)', name);
  }
}

export class Order extends WorkflowEntrypoint {
  async run({ payload }: any, step: any) {
    await step.do('reserve', async () => ({ for: payload.to, bottles: 3 }));
    await step.waitForEvent('the payment', { type: 'paid' });
  }
}

export default {
  async fetch(request: Request, env: any): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === '/fill') {
      await env.ROOM.getByName('lobby').enter('Ada');
      await env.DB.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, total REAL, note TEXT)');
      for (const customer of ['Ada', 'Grace', 'Edsger'])
        await env.DB.prepare('INSERT INTO orders (customer, total) VALUES (?, ?)').bind(customer, 12.5).run();
      await env.KV.put('cart:ada', JSON.stringify({ items: 3 }), { metadata: { by: 'ada' } });
      await env.FILES.put('2026/front.txt', 'a picture of the shop', { httpMetadata: { contentType: 'text/plain' } });
    }
    if (pathname === '/broken') return new Response(price('nothing').toFixed(2));
    if (pathname === '/slow') await scheduler.wait(1_100);
    if (pathname === '/print') for (const level of ['log', 'warn', 'error', 'debug'] as const) console[level]('a line of', level);
    return new Response('the shop is ${greeting}');
  },
};
`,
  'src/price.ts': `const PRICES: Record<string, number> = { bottle: 12.5 };

export function price(of: string): number {
  const found = PRICES[of];
  if (found === undefined) throw new TypeError('there is no price of ' + of);
  return found;
}
`,
});
