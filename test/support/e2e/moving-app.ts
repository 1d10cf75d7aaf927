// Sample apps with data that moves between the machine and the bucket.

/**
 * `POST /?n=1` stores data in D1, KV, R2 and two Durable Objects, and sets an alarm in 10 minutes. It sends a message to a
 * queue, which `later` delays by 20 s. `n=1` also starts a Workflow, which waits for the event of `/go`.
 * `GET /` returns all data; `/status` returns the status of the Workflow.
 */
export const MOVING_APP = {
  'wrangler.toml': `name = "mover"
main = "index.js"
compatibility_date = "2026-10-01"
[[d1_databases]]
binding = "DB"
database_name = "notes"
database_id = "notes"
[[kv_namespaces]]
binding = "KV"
id = "words"
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
[[durable_objects.bindings]]
name = "COUNTER"
class_name = "Counter"
[[durable_objects.bindings]]
name = "OLD"
class_name = "Old"
[[queues.producers]]
binding = "QUEUE"
queue = "jobs"
[[queues.consumers]]
queue = "jobs"
max_batch_timeout = 0
[[workflows]]
binding = "STEPS"
name = "steps"
class_name = "Steps"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Counter"]
new_classes = ["Old"]
`,
  'migrations/0001_notes.sql': 'CREATE TABLE notes (text TEXT);',
  'index.js': `import { DurableObject, WorkflowEntrypoint } from 'cloudflare:workers';
export class Counter extends DurableObject {
  add(n) {
    this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS counts (n INTEGER)');
    this.ctx.storage.sql.exec('INSERT INTO counts VALUES (?)', n);
    this.ctx.storage.kv.put('date', new Date(n));
    this.ctx.storage.setAlarm(Date.now() + 600_000);
  }
  async show() {
    const rows = [...this.ctx.storage.sql.exec('SELECT n FROM counts').raw()].flat();
    return [rows, this.ctx.storage.kv.get('date').getTime(), await this.ctx.storage.getAlarm() !== null];
  }
  alarm() {}
}
export class Old extends DurableObject {
  async add(n) {
    const all = (await this.ctx.storage.get('all')) ?? [];
    await this.ctx.storage.put('all', [...all, n]);
  }
  async show() { return (await this.ctx.storage.get('all')) ?? []; }
}
export class Steps extends WorkflowEntrypoint {
  async run(event, step) {
    const first = await step.do('first', async () => event.payload.n * 10);
    const { payload } = await step.waitForEvent('wait', { type: 'go', timeout: '1 hour' });
    return first + payload.n;
  }
}
export default {
  async queue(batch, { DB }) {
    for (const { body } of batch.messages)
      await DB.prepare('INSERT INTO notes VALUES (?)').bind('job ' + body).run();
  },
  async fetch(request, { DB, KV, FILES, COUNTER, OLD, QUEUE, STEPS }) {
    const url = new URL(request.url);
    const n = Number(url.searchParams.get('n'));
    const [counter, old] = [COUNTER.getByName('one'), OLD.getByName('one')];
    if (url.pathname === '/go') {
      const instance = await STEPS.get('instance-1');
      await instance.sendEvent({ type: 'go', payload: { n: 7 } });
      return new Response('sent');
    }
    if (url.pathname === '/status') return Response.json(await (await STEPS.get('instance-1')).status());
    if (request.method === 'POST') {
      await DB.prepare('INSERT INTO notes VALUES (?)').bind('note ' + n).run();
      await KV.put('word-' + n, 'value ' + n, { metadata: { n } });
      await KV.put('large-' + n, String(n).repeat(300_000));
      await FILES.put('file-' + n, String(n).repeat(300_000), { customMetadata: { n: String(n) } });
      await counter.add(n);
      await old.add(n);
      await QUEUE.send(n, { delaySeconds: url.searchParams.has('later') ? 20 : 0 });
      if (n === 1) await STEPS.create({ id: 'instance-1', params: { n } });
    }
    const { results } = await DB.prepare("SELECT text FROM notes WHERE text LIKE 'note%' ORDER BY text").all();
    const { keys } = await KV.list();
    const values = await Promise.all(keys.map(async ({ name, metadata }) => {
      const value = await KV.get(name);
      return name + '=' + (value.length > 100 ? value[0] + '*' + value.length : value) + JSON.stringify(metadata ?? null);
    }));
    const { objects } = await FILES.list({ include: ['customMetadata'] });
    const files = await Promise.all(objects.map(async ({ key, customMetadata }) => {
      const text = await (await FILES.get(key)).text();
      return key + '=' + text[0] + '*' + text.length + JSON.stringify(customMetadata);
    }));
    const jobs = await DB.prepare("SELECT text FROM notes WHERE text LIKE 'job%' ORDER BY text").all();
    return Response.json({
      notes: results.map(({ text }) => text), values, files,
      counter: await counter.show(), old: await old.show(), jobs: jobs.results.map(({ text }) => text),
    });
  },
};
`,
};

/** Returns what `GET /` returns after `POST /?n=…` with these numbers, without `jobs`: the queue delivers them later. */
export function movingData(...ns: number[]) {
  return {
    notes: ns.map((n) => `note ${n}`),
    values: [
      ...ns.map((n) => `large-${n}=${n}*${300_000}null`),
      ...ns.map((n) => `word-${n}=value ${n}{"n":${n}}`),
    ],
    files: ns.map((n) => `file-${n}=${n}*${300_000}{"n":"${n}"}`),
    counter: [ns, ns.at(-1), true],
    old: ns,
  };
}

/** `POST` stores R2 objects of every kind and begins an upload. `GET` returns all about the objects. `DELETE` deletes one. */
export const OBJECTS_APP = {
  'wrangler.toml': `name = "objects"
main = "index.js"
compatibility_date = "2026-10-01"
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
`,
  'index.js': `const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
export default {
  async fetch(request, { FILES }) {
    if (request.method === 'POST') {
      await FILES.put('empty', '');
      const httpMetadata = { contentType: 'text/x', cacheControl: 'no-cache', cacheExpiry: new Date(86_400_000) };
      await FILES.put('one', 'x', { httpMetadata, customMetadata: { by: 'someone' } });
      const bytes = new TextEncoder().encode('s'.repeat(300_000));
      await FILES.put('summed', bytes, { sha256: await crypto.subtle.digest('SHA-256', bytes) });
      const upload = await FILES.createMultipartUpload('folder/ü large', { customMetadata: { parts: '3' } });
      const parts = [];
      for (const megabytes of [5, 5, 2])
        parts.push(await upload.uploadPart(parts.length + 1, String(megabytes).repeat(megabytes * 2 ** 20)));
      await upload.complete(parts);
      await (await FILES.createMultipartUpload('unfinished')).uploadPart(1, 'part');
      return new Response('stored');
    }
    if (request.method === 'DELETE') await FILES.delete('one');
    const { objects } = await FILES.list();
    const all = [];
    for (const { key } of objects) {
      const object = await FILES.get(key);
      const { version, etag, size, uploaded, httpMetadata, customMetadata, storageClass } = object;
      const checksums = object.checksums.toJSON();
      const digest = hex(await crypto.subtle.digest('SHA-256', await object.arrayBuffer()));
      const again = await FILES.get(key, { onlyIf: { etagDoesNotMatch: etag } });
      const isUnchanged = again !== null && again.body === undefined;
      all.push({ key, version, etag, size, uploaded, httpMetadata, customMetadata, storageClass, checksums, digest, isUnchanged });
    }
    return Response.json(all);
  },
};
`,
};
