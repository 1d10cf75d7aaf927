// An unreachable registry: the deploy's log names it while npm still retries silently.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { closeBundler } from '../../../runtime/builds/release/build.ts';
import { NO_SETTINGS } from '../../../runtime/builds/release/build-input.ts';
import { buildCommit, makeDirectory } from '../../support/builds/projects.ts';
import { CERTIFICATE } from '../../support/git/git-host.ts';
import { eventually } from '../../support/processes.ts';

const directory = makeDirectory();
/** Accepts connections and never answers. */
const silent = createServer(() => {});
silent.listen(0, '127.0.0.1');
await once(silent, 'listening');
const { port } = silent.address() as { port: number };
const registry = `https://ada:s3cret@127.0.0.1:${port}/`;
// The machine's npm settings override those of a project. The host reads them once, at the first build.
process.env.npm_config_registry = registry;
after(() => {
  silent.close();
  closeBundler();
  directory.remove();
});

const WORKER = 'export default { fetch() { return new Response("ok") } }';
const PACKAGE = { dependencies: { 'is-odd': '3.0.1' } };
const LOCK = {
  lockfileVersion: 3,
  packages: { '': PACKAGE, 'node_modules/is-odd': { version: '3.0.1' } },
};
const FILES = {
  '.npmrc': `registry=${registry}\n`,
  'index.js': WORKER,
  'package.json': JSON.stringify(PACKAGE),
  'package-lock.json': JSON.stringify(LOCK),
};
/** npm starts slowly on a busy machine. */
const DEADLINE_MS = 200_000;
const REPORT = /^the package registry .* cannot be reached/;

/**
 * Starts a build that installs from the registry, and aborts it when the log names the registry.
 * @param deadlineMs timeout of a response
 * @returns the line that names the registry
 */
async function reported(deadlineMs: number): Promise<string> {
  const abort = new AbortController();
  const { result, lines } = await buildCommit(directory.path, FILES, {
    signal: abort.signal,
    registryTimes: { afterMs: 100, deadlineMs },
  });
  const ended = assert.rejects(result);
  await eventually(() => lines.some((line) => REPORT.test(line)), 'the log names the registry', DEADLINE_MS);
  abort.abort();
  await ended;
  assert.doesNotMatch(lines.join('\n'), /s3cret/);
  return lines.find((line) => REPORT.test(line))!;
}

test('the log names a registry that never answers or refuses connections', async () => {
  const goesOn = 'the install continues with its cache';
  assert.equal(
    await reported(2_000),
    `the package registry 127.0.0.1:${port} cannot be reached (timeout, no answer within 2 s): ${goesOn}`,
  );
  silent.close();
  assert.equal(
    await reported(50_000),
    `the package registry 127.0.0.1:${port} cannot be reached (ECONNREFUSED): ${goesOn}`,
  );
});

test('the log says how to trust a registry whose certificate is from an unknown authority', async () => {
  const pem = readFileSync(CERTIFICATE);
  const unknown = createTlsServer({ key: pem, cert: pem });
  unknown.listen(port, '127.0.0.1');
  await once(unknown, 'listening');
  try {
    assert.match(await reported(50_000), /unknown authority: set NODE_EXTRA_CA_CERTS to the file/);
  } finally {
    unknown.close();
  }
});

test('an unreachable registry does not fail an install that does not need it', async () => {
  const settings = { ...NO_SETTINGS, install_command: 'npm --version; until [ -e go ]; do sleep 0.1; done' };
  const { input, result, lines } = await buildCommit(directory.path, FILES, {
    settings,
    registryTimes: { afterMs: 100, deadlineMs: 2_000 },
  });
  await eventually(() => lines.some((line) => REPORT.test(line)), 'the log names the registry', DEADLINE_MS);
  writeFileSync(join(input.scratch, 'project', 'go'), '');
  await result;
  assert.equal(lines.filter((line) => REPORT.test(line)).length, 1, lines.join('\n'));
});

test('a short install does not probe the registry', async () => {
  const settings = { ...NO_SETTINGS, install_command: 'npm --version' };
  const { result, lines } = await buildCommit(directory.path, FILES, { settings });
  await result;
  assert.ok(!lines.some((line) => REPORT.test(line)), lines.join('\n'));
});
