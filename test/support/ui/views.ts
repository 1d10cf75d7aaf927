// The views of the control UI, and an app with data for each.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { Cellar } from '../e2e/cellar.ts';
import { rpcOf } from '../e2e/rpc.ts';
import { eventually } from '../processes.ts';
import type { Person } from './browser.ts';
import { SHOP, shopFiles } from './shop.ts';

/** Returns a function that calls an RPC method and asserts that it succeeds. */
export function acceptedRpcOf(cellar: Cellar): ReturnType<typeof rpcOf> {
  const ask = rpcOf(cellar);
  return async (method, given) => {
    const answer = await ask(method, given);
    assert.ok(!answer?.detail, `${method}: ${JSON.stringify(answer)}`);
    return answer;
  };
}

/** Makes an app with data for each view. Returns values for the parameters in the views' paths. */
export async function makeShop(cellar: Cellar): Promise<Record<string, string>> {
  const rpc = acceptedRpcOf(cellar);
  const id = await cellar.deploy(SHOP, 'hello', shopFiles());
  for (const path of ['/fill', '/', '/', '/broken', '/slow', '/print']) await cellar.get(SHOP, path);
  await assert.rejects(cellar.deployAgain(SHOP, 'hello', { ...shopFiles(), 'main.ts': 'export default {' }));
  await rpc('env.set', { id, name: 'GREETING', value: 'hello' });
  await rpc('vars.set', { id, name: 'LIMITS', value: { max: 5 } });
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'a secret' });
  await rpc('domains.add', { id, hostname: 'shop.example.com' });
  await rpc('mail.routes.set', { id, address: '*@shop.example.com' });
  await rpc('users.identify', { id, user_id: 'u-1', properties: { plan: 'free' } });
  await rpc('events.log', { id, channel: 'orders', event: 'Ordered', user_id: 'u-1', tags: { total: 25 } });
  await rpc('insights.set', { id, title: 'Orders', value: 3 });
  await rpc('previews.set', { id, branches: true });
  const work = await cellar.checkout('hello');
  const { stderr } = await cellar.git(work, 'push', cellar.remote(SHOP), 'HEAD:refs/heads/feature/login');
  assert.match(stderr, /feature-login--shop/);
  const { id: account } = await rpc('accounts.create', { name: 'Grace', email: 'grace@example.com' });
  await rpc('collaborators.set', { id, account, role: 'push' });
  const deploys = await rpc('deploys.list', { id });
  let errors: { items: { fingerprint: string }[] } = { items: [] };
  await eventually(async () => {
    errors = await rpc('errors.list', { id, status: 'open' });
    return errors.items.length > 0;
  }, 'the error is listed');
  let spans: { items: { trace_id: string }[] } = { items: [] };
  await eventually(async () => {
    spans = await rpc('spans.list', { id, hours: 1 });
    return spans.items.length > 0;
  }, 'the slow request is listed');
  const order = { id, workflow: 'orders', instance: 'order-1' };
  await rpc('workflows.instances.create', { ...order, params: { to: 'Ada' } });
  await eventually(
    async () => (await rpc('workflows.instances.get', order)).status === 'waiting',
    'it waits',
  );
  const { owner } = await rpc('apps.get', { id });
  const namespaces = `/client/v4/accounts/${owner}/workers/dispatch/namespaces`;
  assert.equal((await cellar.call('POST', namespaces, { name: 'customers' })).status, 200);
  const overview = await rpc('storage.overview', { id });
  const objects = await rpc('storage.do.get', { id, class_name: overview.classes[0].class_name });
  return {
    app: SHOP,
    dispatch: 'customers',
    deploy: deploys.items[0].id,
    sha: deploys.items[0].sha,
    fingerprint: errors.items[0]!.fingerprint,
    trace: spans.items[0]!.trace_id,
    path: '',
    database: overview.databases[0].id,
    class: overview.classes[0].class_name,
    object: objects.items[0].id,
    namespace: overview.namespaces[0].id,
    bucket: overview.buckets[0].bucket,
    prefix: '',
    user: 'u-1',
    workflow: 'orders',
    instance: 'order-1',
  };
}

/** The paths of all views, read from the router's source. */
export const paths = new Map(
  [
    .../export const paths = \{([^}]*)\}/
      .exec(readFileSync(new URL('../../../ui/router.ts', import.meta.url), 'utf8'))![1]!
      .matchAll(/(\w+): '([^']+)'/g),
  ].map(([, name, path]) => [name!, path!] as const),
);
const SIGNED_OUT = ['signIn', 'welcome', 'invite'];
/** The names of the views that need a signed-in person. */
export const views = [...paths.keys()].filter((each) => !SIGNED_OUT.includes(each));

/** Returns the path of a view. @param params values of the path's parameters */
export function pathOf(name: string, params: Record<string, string>): string {
  return paths.get(name)!.replace(/:(\w+)\*?/g, (_, caught: string) => {
    assert.ok(caught in params, `no value for ${caught} of ${name}`);
    return encodeURIComponent(params[caught]!);
  });
}

/** Resolves when the view shows its data. */
export async function settled({ page }: Person): Promise<void> {
  await page.locator('h1').first().waitFor();
  await page.locator('.skeleton').first().waitFor({ state: 'detached' });
}
