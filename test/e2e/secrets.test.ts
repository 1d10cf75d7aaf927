// Secrets of Workers through a whole Cellar: set by RPC, passed to the process, and never stored unencrypted.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { rpcOf } from '../support/e2e/rpc.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { cells, eventually } from '../support/processes.ts';

const cellar = sharedCellar('code');

/** A Worker that returns its variables as seen at its start and at the request. `/slow` takes a while. */
const CODE = `
import { env as atStart } from 'cloudflare:workers';
if (atStart.TOKEN?.includes('wrong')) throw new Error('refused the token ' + atStart.TOKEN);
const first = atStart.TOKEN;
export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === '/slow') await scheduler.wait(300);
    return Response.json({ first, TOKEN: env.TOKEN ?? null, MODE: env.MODE ?? null, node: process.env.TOKEN ?? null });
  },
};`;
const CONFIG = `name = "app"
main = "index.js"
compatibility_date = "2026-10-01"
[vars]
MODE = "from the file"
`;

/** Pause between two requests of a client, in ms, so that they do not use all CPU time. */
const PAUSE_MS = 5;
const rpc = rpcOf(cellar);
const seen = async (slug: string) => JSON.parse((await cellar.get(slug)).text);

let pushed = 0;
/** Pushes these files as the whole project. Returns git's output. */
async function push(slug: string, files: Record<string, string> = {}): Promise<string> {
  const work = await cellar.checkout('hello');
  const all = { 'index.js': CODE, 'wrangler.toml': CONFIG, ...files };
  for (const [name, text] of Object.entries(all)) writeFileSync(join(work, name), text);
  // Two equal commits in the same second would have the same id.
  await cellar.commit(work, `change ${++pushed}`);
  return (await cellar.push(work, slug, '--force')).stderr;
}

/** Returns the files below a directory that contain a text. Ignores files that the host removes meanwhile. */
function filesWith(directory: string, text: string): string[] {
  const { stdout } = spawnSync(
    'grep',
    [
      '--recursive',
      '--files-with-matches',
      '--text',
      '--no-messages',
      '--devices=skip',
      '-F',
      text,
      directory,
    ],
    { encoding: 'utf8' },
  );
  return stdout.split('\n').filter((line) => line !== '');
}

test('a new secret restarts the Worker at once, without a failed request', async () => {
  const id = await cellar.create('given');
  assert.match(await push('given'), /serves this push/);
  assert.deepEqual(await seen('given'), { MODE: 'from the file', TOKEN: null, node: null });

  let stop = false;
  const failures: string[] = [];
  const clients = Array.from({ length: 4 }, async (_, n) => {
    while (!stop) {
      const { status, text } = await cellar.get('given', n === 0 ? '/slow' : '/');
      if (status !== 200) failures.push(`${status} ${text}`);
      await sleep(PAUSE_MS);
    }
  });
  for (let n = 1; n <= 5; n++) {
    const TOKEN = `value ${n} "ü"\nsecond line`;
    const answer = await rpc('secrets.set', { id, name: 'TOKEN', value: TOKEN });
    assert.deepEqual([answer.name, answer.in_effect, answer.problem], ['TOKEN', true, null]);
    assert.ok(!JSON.stringify(answer).includes('value'), 'the answer has no value');
    assert.deepEqual(await seen('given'), { first: TOKEN, MODE: 'from the file', TOKEN, node: TOKEN });
  }
  stop = true;
  await Promise.all(clients);
  assert.deepEqual(failures, []);

  const { items } = await rpc('secrets.list', { id });
  assert.deepEqual(items.map(Object.keys), [['name', 'created_at', 'updated_at']]);
  assert.equal(await rpc('secrets.delete', { id, name: 'TOKEN' }), null);
  assert.equal((await seen('given')).TOKEN, null);
  assert.equal((await rpc('secrets.delete', { id, name: 'TOKEN' })).code, 'secret_not_found');
});

test('deploys and rollbacks keep secrets, and a secret overrides a variable of the same name', async () => {
  const id = await cellar.create('kept');
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'before the first deploy' });
  await rpc('secrets.set', { id, name: '$_', value: 'a name no shell knows' });
  assert.match(await push('kept'), /serves this push/);
  assert.equal((await seen('kept')).TOKEN, 'before the first deploy');
  await rpc('secrets.set', { id, name: 'MODE', value: 'from the secret' });
  assert.equal((await seen('kept')).MODE, 'from the secret');
  assert.match(await push('kept'), /MODE is both a secret and a var: the Worker gets the secret/);
  const { body } = await cellar.call('GET', `/v1/apps/${id}/deploys`);
  const earlier = body.items[1].id;
  const { body: asked } = await cellar.call('POST', `/v1/apps/${id}/rollback`, { deploy_id: earlier });
  await eventually(async () => (await cellar.app(id)).live_deploy_id === asked.id, 'the rollback serves');
  const { TOKEN, MODE } = await seen('kept');
  assert.deepEqual([TOKEN, MODE], ['before the first deploy', 'from the secret']);
});

test('an override of a variable is in effect at once, and later deploys keep it and name it', async () => {
  const id = await cellar.create('overridden');
  assert.match(await push('overridden'), /serves this push/);
  const renewed = { in_effect: true, problem: null };
  const { updated_at, ...set } = await rpc('vars.set', { id, name: 'MODE', value: { list: [1, null] } });
  assert.deepEqual(set, { name: 'MODE', value: { list: [1, null] }, ...renewed });
  assert.deepEqual((await seen('overridden')).MODE, { list: [1, null] });
  await rpc('vars.set', { id, name: 'TOKEN', value: 'only set here' });
  assert.deepEqual(await seen('overridden'), {
    first: 'only set here',
    MODE: { list: [1, null] },
    TOKEN: 'only set here',
    node: 'only set here',
  });
  const config = CONFIG.replace('from the file', 'from the next file');
  const output = await push('overridden', { 'wrangler.toml': config });
  assert.match(output, /the var MODE is overridden: the Worker gets the value that was set for this app/);
  assert.match(output, /the var TOKEN is not in the configuration/);
  assert.deepEqual((await seen('overridden')).MODE, { list: [1, null] });
  const { items } = await rpc('vars.list', { id });
  assert.deepEqual(
    items.map(({ name, override }: { name: string; override: { replaces: boolean } }) => [
      name,
      override.replaces,
    ]),
    [
      ['MODE', true],
      ['TOKEN', false],
    ],
  );
  assert.deepEqual(await rpc('vars.unset', { id, name: 'MODE' }), renewed);
  assert.equal((await seen('overridden')).MODE, 'from the next file');
  assert.equal((await rpc('vars.unset', { id, name: 'MODE' })).code, 'var_not_found');
  const { items: left } = await rpc('vars.list', { id });
  assert.deepEqual(left[0], { name: 'MODE', value: 'from the next file', override: null });
});

test('if the release does not start with an override, the process before it keeps running', async () => {
  const id = await cellar.create('refusing-var');
  await push('refusing-var');
  const { in_effect, problem } = await rpc('vars.set', { id, name: 'TOKEN', value: 'wrong' });
  assert.equal(in_effect, false);
  assert.match(problem, /refused the token wrong/);
  assert.equal((await seen('refusing-var')).TOKEN, null);
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'a secret wins' });
  assert.equal((await seen('refusing-var')).TOKEN, 'a secret wins');
});

test('if the release does not start with a new secret, the process before it keeps running', async () => {
  const id = await cellar.create('refusing');
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'right' });
  await push('refusing');
  const { in_effect, problem } = await rpc('secrets.set', { id, name: 'TOKEN', value: 'wrong, and secret' });
  assert.equal(in_effect, false);
  assert.match(problem, /refused the token \*\*\*/);
  assert.equal((await seen('refusing')).TOKEN, 'right');
  assert.equal((await rpc('secrets.set', { id, name: 'TOKEN', value: 'right again' })).in_effect, true);
  assert.equal((await seen('refusing')).TOKEN, 'right again');
});

test('a new secret does not start a sleeping or stopped app, which gets it at its next start', async () => {
  const id = await cellar.create('resting');
  await push('resting');
  for (const [at, state] of [
    [`/v1/apps/${id}/sleep`, 'sleeping'],
    [`/v1/apps/${id}`, 'stopped'],
  ] as const) {
    if (state === 'sleeping') await cellar.call('POST', at);
    else await cellar.call('PATCH', at, { desired_state: 'stopped' });
    const { in_effect, problem } = await rpc('secrets.set', {
      id,
      name: 'TOKEN',
      value: `set while ${state}`,
    });
    assert.deepEqual([in_effect, problem, cells(id)], [false, null, []]);
    assert.equal((await cellar.app(id)).status, state);
    if (state === 'stopped') await cellar.call('PATCH', at, { desired_state: 'running' });
    assert.equal((await seen('resting')).TOKEN, `set while ${state}`);
  }
});

test('secrets.required: a missing one fails the deploy and is named; .dev.vars is not read, and the log says so', async () => {
  const id = await cellar.create('needy');
  const config = `${CONFIG}[secrets]\nrequired = ["TOKEN", "OTHER"]\n`;
  await rpc('secrets.set', { id, name: 'OTHER', value: 'is there' });
  const refused = await push('needy', { 'wrangler.toml': config, '.dev.vars': 'TOKEN=local\n' });
  assert.match(refused, /\.dev\.vars is not read on a deploy.*cellar secrets set NAME/);
  assert.match(refused, /deploy failed: secrets\.required: the app has no secret TOKEN; set it/);
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'is there too' });
  assert.match(await push('needy', { 'wrangler.toml': config }), /serves this push/);
});

test('values of variables and secrets are masked in the log of a build, also when split over several writes', async () => {
  const id = await cellar.create('masked');
  await cellar.call('POST', `/v1/apps/${id}/env`, {
    name: 'API_KEY',
    value: 'key-of-the-build\nits second line',
  });
  await cellar.call('POST', `/v1/apps/${id}/env`, { name: 'TINY', value: 'abc' });
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'known-secret' });
  const build = `const { API_KEY, TINY } = process.env;
process.stdout.write('have key-of-');
setTimeout(() => { console.log('the-build', TINY); console.log(API_KEY); console.log('known-\\x1b[1msecret'); process.exit(1); }, 200);`;
  const said = await push('masked', {
    'package.json': JSON.stringify({ scripts: { build: 'node build.js' } }),
    'build.js': build,
  });
  assert.match(said, /have \*\*\* abc/);
  for (const value of ['key-of-the-build', 'its second line', 'known-secret'])
    assert.ok(!said.includes(value), value);
  const { body } = await cellar.call('GET', `/v1/apps/${id}/deploys`);
  assert.ok(!JSON.stringify(body).includes('known-secret'));
});

test('no file, answer or record contains the value of a secret', async () => {
  const id = await cellar.create('sealed');
  const value = 'a-value-to-be-looked-for';
  await push('sealed');
  const once = { headers: { 'idempotency-key': 'once' } };
  const first = await rpc('secrets.set', { id, name: 'TOKEN', value }, once);
  assert.deepEqual(await rpc('secrets.set', { id, name: 'TOKEN', value }, once), first);
  const refused = await rpc('secrets.set', { id, name: 'not a name', value });
  assert.equal(refused.code, 'invalid_input');
  assert.ok(!JSON.stringify(refused).includes(value));
  await push('sealed');
  assert.equal((await seen('sealed')).TOKEN, value);
  assert.deepEqual(filesWith(cellar.data, value), []);
  assert.ok(!cellar.output.includes(value));
  assert.equal(statSync(join(cellar.data, 'secrets-key')).mode & 0o777, 0o600);
  const { pid } = cells(id)[0]!;
  assert.ok(readFileSync(`/proc/${pid}/environ`, 'utf8').includes(value));
});

test('a repeated deletion of a secret gets the same answer, also after its app was deleted', async () => {
  const id = await cellar.create('gone-again');
  await rpc('secrets.set', { id, name: 'TOKEN', value: 'one' });
  const headers = { 'idempotency-key': 'remove-secret' };
  const remove = () => rpc('secrets.delete', { id, name: 'TOKEN' }, { headers });
  assert.equal(await remove(), null);
  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
  assert.equal(await remove(), null);
  assert.equal((await rpc('secrets.delete', { id, name: 'TOKEN' })).code, 'app_not_found');
});
