// Which services of the machine builds can reach, on a real host. Needs root and the packet filter.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cellar } from '../../support/e2e/cellar.ts';
import { NEEDS_RULES } from '../../support/rules.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

/** Starts a package registry on loopback with one package, `of-the-house`. @returns its URL */
async function registry(t: TestContext): Promise<string> {
  const directory = temporaryDirectory(t);
  mkdirSync(join(directory, 'package'));
  writeFileSync(join(directory, 'package', 'package.json'), '{"name": "of-the-house", "version": "1.0.0"}');
  writeFileSync(join(directory, 'package', 'index.js'), 'export const house = "of the house";');
  execFileSync('tar', ['-czf', 'package.tgz', 'package'], { cwd: directory });
  const archive = readFileSync(join(directory, 'package.tgz'));
  const server = createServer((request, response) => {
    if (request.url === '/package.tgz') return response.end(archive);
    const dist = { tarball: `${origin}/package.tgz` };
    const versions = { '1.0.0': { name: 'of-the-house', version: '1.0.0', dist } };
    response.end(JSON.stringify({ name: 'of-the-house', 'dist-tags': { latest: '1.0.0' }, versions }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return origin;
}

test(
  'a build installs from a registry on loopback but reaches neither Cellar nor other local services',
  NEEDS_RULES,
  async (t) => {
    await using cellar = await new Cellar({ npm_config_registry: await registry(t) }).start();
    const other = createServer((_, response) => response.end('other'));
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    t.after(() => other.close());
    const places = {
      api: `${cellar.api}/health`,
      edge: `http://127.0.0.1:${cellar.edgePort}/`,
      other: `http://127.0.0.1:${(other.address() as AddressInfo).port}/`,
      metadata: 'http://169.254.169.254/latest/',
      private: 'http://10.11.12.13/',
    };
    const script = `
      import { createServer } from 'node:http';
      const own = createServer((_, response) => response.end('own'));
      await new Promise((resolve) => own.listen(0, 'localhost', resolve));
      const places = { ...${JSON.stringify(places)}, own: 'http://localhost:' + own.address().port };
      for (const [name, url] of Object.entries(places)) {
        const found = await fetch(url, { signal: AbortSignal.timeout(8000) }).then(() => 'reached', ({ cause }) => cause?.code ?? 'late');
        console.log('found', name, found);
      }
      process.exit();`;
    const packages = {
      dependencies: { 'of-the-house': '1.0.0' },
      scripts: { build: 'node build.mjs' },
    };
    const work = await cellar.checkout('hello');
    await cellar.create('curious');
    writeFileSync(join(work, 'package.json'), JSON.stringify(packages));
    writeFileSync(join(work, 'build.mjs'), script);
    writeFileSync(
      join(work, 'index.js'),
      "import { house } from 'of-the-house'; export default { fetch: () => new Response(house) };",
    );
    await cellar.commit(work, 'look around');
    const { stderr } = await cellar.push(work, 'curious');
    const found = Object.fromEntries(
      [...stderr.matchAll(/found (\w+) (\w+)/g)].map(([, name, what]) => [name, what]),
    );
    const refused = 'ECONNREFUSED';
    assert.deepEqual(
      found,
      { api: refused, edge: refused, other: refused, metadata: refused, private: refused, own: 'reached' },
      stderr,
    );
    assert.equal((await cellar.get('curious')).text, 'of the house', stderr);
  },
);
