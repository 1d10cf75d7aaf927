// The command line in a clone finds the clone's Cellar, and sends its token to no other server.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { run } from '../../cli/cli.ts';
import { CellarClient } from '../../client/index.ts';
import { Cellar } from '../support/e2e/cellar.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

/** Runs a command line in a clone without an address of a Cellar. */
async function inClone(words: string[], root: string, input = '', env: Record<string, string> = {}) {
  const called: string[] = [];
  let said = '';
  const place = {
    folder: root,
    root,
    env: { PATH: process.env.PATH, HOME: root, ...env },
    isTerminal: false,
    out: () => {},
    say: (text: string) => {
      said += text;
    },
    input: async () => input,
    signal: AbortSignal.timeout(60_000),
  };
  const code = await run(words, place, (login) => {
    called.push(login.url);
    return new CellarClient(login);
  });
  return { code, said, called };
}

/** Makes a clone with the Cellar's data directory, as a link or as a copy of its small files. */
function clone(name: string, kind: 'link' | 'copy'): string {
  const root = join(cellar.directory, name);
  mkdirSync(root);
  const data = join(root, '.cellar');
  if (kind === 'link') symlinkSync(cellar.data, data);
  else {
    mkdirSync(data);
    for (const file of ['token', 'api-key', 'host.lock', 'api-address'])
      cpSync(join(cellar.data, file), join(data, file));
  }
  return root;
}

test('the command line finds the port of its clone’s Cellar', async () => {
  const root = clone('found', 'link');
  assert.deepEqual(await inClone(['list'], root), { code: 0, said: '', called: [cellar.api] });
  const { code, called } = await inClone(['login'], root, cellar.token);
  assert.deepEqual({ code, called }, { code: 0, called: [cellar.api] });
});

test('the command line finds a Cellar whose data is elsewhere', async () => {
  const root = join(cellar.directory, 'elsewhere');
  mkdirSync(root);
  for (const data of [cellar.data, '../data']) {
    const found = await inClone(['list'], root, '', { RUNNER_DATA_DIR: data });
    assert.deepEqual(found, { code: 0, said: '', called: [cellar.api] });
  }
});

test('files of the clone’s Cellar that another user owns do not stop the command line', async () => {
  const root = clone('foreign', 'copy');
  // SQLite reports a missing file like one that the user may not open.
  rmSync(join(root, '.cellar', 'host.lock'));
  const named = await inClone(['list'], root, '', { CELLAR_URL: cellar.api, CELLAR_TOKEN: cellar.token });
  assert.deepEqual(named, { code: 0, said: '', called: [cellar.api] });
  const { code, said } = await inClone(['list'], root);
  assert.equal(code, 7);
  assert.match(said, /^\S*\s*No Cellar /);
});

test('a server at the port of a Cellar that was killed, or at the usual port, gets no token', async (t) => {
  const got: (string | undefined)[] = [];
  const stranger = createServer((request, response) => {
    got.push(request.headers.authorization);
    response.end('{}');
  });
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  t.after(() => stranger.close());
  const { port } = stranger.address() as AddressInfo;
  const killed = clone('killed', 'copy');
  writeFileSync(join(killed, '.cellar', 'api-address'), `http://127.0.0.1:${port}\n`);
  const fresh = join(cellar.directory, 'fresh');
  mkdirSync(fresh);
  for (const root of [killed, fresh]) {
    const { code, said, called } = await inClone(['list'], root);
    assert.deepEqual({ code, called }, { code: 7, called: [] });
    assert.match(
      said,
      /No Cellar .* data in \S+\/\.cellar.*RUNNER_DATA_DIR.*\nNext: npm --prefix \S+ start\n/,
    );
    const login = await inClone(['login'], root, cellar.token);
    assert.deepEqual([login.code, login.called], [2, []], login.said);
  }
  assert.deepEqual(got, []);
});

test('a stopped Cellar leaves no address', async () => {
  const address = join(cellar.data, 'api-address');
  assert.ok(existsSync(address));
  await cellar.stop();
  assert.ok(!existsSync(address));
});
