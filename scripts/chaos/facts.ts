// The kinds of changes that a Cellar acknowledges: how to make one, and how to find out which are missing.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Cellar } from '../../test/support/e2e/cellar.ts';
import { rpcOf } from '../../test/support/e2e/rpc.ts';
import { type Kind, WRITER } from './writer.ts';

const ANSWER_MS = 5_000;
const BRANCHES = 20;
const NAMES = 5;
/** Above this number of apps, every second change deletes an app. */
const MOST_APPS = 10;
/** Number of newest API keys that one check tries. */
const KEYS_TRIED = 5;

/** One kind of change. */
export interface Fact {
  /** Pause between changes, in ms. */
  pauseMs: number;
  /** Makes one change. @throws {Error} why it was not acknowledged */
  change: () => Promise<void>;
  /** Returns the changes that were acknowledged before the call and are missing. @throws {Error} when it cannot find out */
  missing: () => Promise<string[]>;
}

/** Makes the apps that facts are about, and returns the facts by their names. */
export async function makeFacts(cellar: Cellar): Promise<Record<string, Fact>> {
  await cellar.deploy('writer', 'hello', WRITER);
  await cellar.create('pushed');
  await cellar.create('deployed');
  await cellar.deploy('secretive', 'hello', {
    'index.js':
      'export default { fetch: (_, env) => Response.json(Object.fromEntries(Object.entries(env).filter(([name]) => /^S\\d$/.test(name)))) };',
  });
  const kinds: Kind[] = ['d1', 'kv', 'r2', 'do', 'queue', 'workflow'];
  return {
    ...Object.fromEntries(kinds.map((kind) => [kind, writes(cellar, kind)])),
    push: await pushes(cellar),
    deploy: await deploys(cellar),
    secret: await settings(cellar),
    app: apps(cellar),
    account: accounts(cellar),
  };
}

function writes(cellar: Cellar, kind: Kind): Fact {
  const acknowledged = new Set<number>();
  let next = 0;
  return {
    // Each round reads all of these writes. With many more, the check would take longer than the failure.
    pauseMs: kind === 'workflow' ? 200 : 100,
    change: async () => {
      const n = ++next;
      const init = { method: 'POST', signal: AbortSignal.timeout(ANSWER_MS) };
      const { status, text } = await cellar.get('writer', `/${kind}?n=${n}`, init);
      if (status !== 200) throw new Error(`${status} ${text}`);
      acknowledged.add(n);
    },
    missing: async () => {
      const expected = [...acknowledged];
      const { status, text } = await cellar.get('writer', `/${kind}`);
      if (status !== 200) throw new Error(`${status} ${text}`);
      const there = new Set(JSON.parse(text) as number[]);
      return expected.filter((n) => !there.has(n)).map(String);
    },
  };
}

/** Pushes of branches, without a deploy. */
async function pushes(cellar: Cellar): Promise<Fact> {
  const work = await cellar.checkout('hello');
  const order: string[] = [];
  const acknowledged = new Map<string, string>();
  return {
    pauseMs: 100,
    change: async () => {
      const branch = `refs/heads/b${order.length % BRANCHES}`;
      const sha = await commit(cellar, work, `commit ${order.length}`);
      order.push(sha);
      const words = ['push', '--quiet', cellar.remote('pushed'), `HEAD:${branch}`];
      const { code, stderr } = await cellar.git(work, ...words);
      if (code !== 0) throw new Error(stderr);
      acknowledged.set(branch, sha);
    },
    missing: async () => {
      const expected = [...acknowledged];
      const copy = join(cellar.directory, 'clone');
      rmSync(copy, { recursive: true, force: true });
      const words = ['clone', '--quiet', '--mirror', cellar.remote('pushed'), copy];
      const cloned = await cellar.git(cellar.directory, ...words);
      if (cloned.code !== 0) throw new Error(cloned.stderr);
      const listed = await cellar.git(copy, 'for-each-ref', '--format=%(refname) %(objectname)');
      const refs = new Map(listed.stdout.split('\n').map((line) => line.split(' ') as [string, string]));
      // A later push that was not acknowledged may have moved the branch.
      return expected
        .filter(([branch, sha]) => order.indexOf(refs.get(branch) ?? '') < order.indexOf(sha))
        .map(([branch, sha]) => `${branch} at ${sha}, it is at ${refs.get(branch)}`);
    },
  };
}

/** Pushes of `main`, until the new version is reported live. */
async function deploys(cellar: Cellar): Promise<Fact> {
  const work = await cellar.checkout('hello');
  const order: string[] = [];
  let live = -1;
  const rpc = rpcOf(cellar);
  return {
    pauseMs: 500,
    change: async () => {
      const n = order.length;
      const text = `export default { fetch: () => new Response('${n}') };`;
      writeFileSync(join(work, 'index.js'), text);
      order.push(await commit(cellar, work, `version ${n}`));
      const { stderr } = await cellar.push(work, 'deployed');
      if (!stderr.includes('serves this push')) throw new Error(stderr);
      live = n;
    },
    missing: async () => {
      const expected = live;
      if (expected < 0) return [];
      const { status, text } = await cellar.get('deployed');
      if (status !== 200) throw new Error(`${status} ${text}`);
      const { id } = await rpc('apps.get_by_slug', { slug: 'deployed' });
      const { items } = await rpc('deploys.list', { id });
      const listed = items.find((deploy: { status: string }) => deploy.status === 'live')?.sha;
      if (Number(text) >= expected && order[Number(text)] === listed) return [];
      return [`version ${expected}: ${text} serves, ${order.indexOf(listed)} is listed as live`];
    },
  };
}

/** Secrets and variables of an app. Each name gets larger and larger values. */
async function settings(cellar: Cellar): Promise<Fact> {
  const acknowledged = new Map<string, number>();
  const rpc = rpcOf(cellar);
  const { id } = await rpc('apps.get_by_slug', { slug: 'secretive' });
  let next = 0;
  return {
    pauseMs: 200,
    change: async () => {
      const n = ++next;
      const isSecret = n % 2 === 0;
      const name = `${isSecret ? 'S' : 'E'}${n % NAMES}`;
      await done(rpc(isSecret ? 'secrets.set' : 'env.set', { id, name, value: String(n) }));
      acknowledged.set(name, n);
    },
    missing: async () => {
      const expected = [...acknowledged];
      const { status, text } = await cellar.get('secretive');
      if (status !== 200) throw new Error(`${status} ${text}`);
      const { items } = await done(rpc('env.list', { id }));
      const variables = items.map(({ name, value }: { name: string; value: string }) => [name, value]);
      const values = { ...JSON.parse(text), ...Object.fromEntries(variables) };
      return expected
        .filter(([name, n]) => !(Number(values[name]) >= n))
        .map(([name, n]) => `${name} = ${n}, it is ${values[name]}`);
    },
  };
}

/** Creations of apps, and deletions of some. */
function apps(cellar: Cellar): Fact {
  const there = new Map<string, string>();
  const gone = new Set<string>();
  const rpc = rpcOf(cellar);
  let next = 0;
  return {
    pauseMs: 200,
    change: async () => {
      const n = ++next;
      const [oldest] = there;
      if (n % 2 === 0 && there.size > MOST_APPS && oldest) {
        const [slug, id] = oldest;
        // Until the deletion is acknowledged, the app may exist or not.
        there.delete(slug);
        await done(rpc('apps.delete', { id }));
        gone.add(slug);
        return;
      }
      const slug = `made-${n}`;
      there.set(slug, (await done(rpc('apps.create', { slug }))).id);
    },
    missing: async () => {
      const [expected, deleted] = [[...there.keys()], [...gone]];
      const listed = new Set((await all(cellar, 'apps.list')).map(({ slug }) => slug));
      return [
        ...expected.filter((slug) => !listed.has(slug)),
        ...deleted.filter((slug) => listed.has(slug)).map((slug) => `the deletion of ${slug}`),
      ];
    },
  };
}

/** Accounts with an API key each. */
function accounts(cellar: Cellar): Fact {
  const made = new Set<string>();
  const keys: string[] = [];
  const rpc = rpcOf(cellar);
  let next = 0;
  return {
    pauseMs: 200,
    change: async () => {
      const n = ++next;
      const account = { name: `Ada ${n}`, email: `ada${n}@example.com` };
      const { id } = await done(rpc('accounts.create', account));
      made.add(id);
      keys.push((await done(rpc('keys.create', { account: id }))).key);
    },
    missing: async () => {
      const [expected, tried] = [[...made], keys.slice(-KEYS_TRIED)];
      const listed = new Set((await all(cellar, 'accounts.list')).map(({ id }) => id));
      const lost = expected.filter((id) => !listed.has(id));
      for (const key of tried) {
        const { code } = await rpc('accounts.me', {}, { key });
        if (code !== undefined) lost.push(`a key: ${code}`);
      }
      return lost;
    },
  };
}

/** Returns the result of a call. @throws {Error} when it was refused */
// biome-ignore lint/suspicious/noExplicitAny: as `rpcOf`
async function done(call: Promise<any>): Promise<any> {
  const result = await call;
  if (result?.code !== undefined) throw new Error(`${result.code} ${result.detail}`);
  return result;
}

/** Returns all pages of a list. */
// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the checks read
async function all(cellar: Cellar, method: string): Promise<any[]> {
  const items = [];
  for (let cursor: string | undefined; ; ) {
    const page = await done(rpcOf(cellar)(method, { limit: 100, ...(cursor && { cursor }) }));
    items.push(...page.items);
    cursor = page.next_cursor ?? undefined;
    if (cursor === undefined) return items;
  }
}

/** Commits all changes. @returns the SHA of the commit */
async function commit(cellar: Cellar, work: string, message: string): Promise<string> {
  await cellar.commit(work, message);
  return (await cellar.git(work, 'rev-parse', 'HEAD')).stdout.trim();
}
