// The control plane is a Wrangler project too.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { bundleHandlers } from '../../../bundler/modules/handlers.ts';
import { COMPILE_CACHE_ENV } from '../../support/compiled.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

test('wrangler accepts the project, with all its bindings', (t) => {
  const directory = temporaryDirectory(t);
  // Wrangler writes beside its configuration, where the user of this test may lack write permission.
  copyFileSync('wrangler.toml', join(directory, 'wrangler.toml'));
  symlinkSync(resolve('handlers'), join(directory, 'handlers'));
  const { status, stdout, stderr } = spawnSync(
    resolve('node_modules/.bin/wrangler'),
    ['deploy', '--dry-run', '--outdir', join(directory, 'out')],
    {
      cwd: directory,
      encoding: 'utf8',
      timeout: 180_000,
      env: {
        ...COMPILE_CACHE_ENV,
        PATH: process.env.PATH,
        HOME: directory,
        WRANGLER_SEND_METRICS: 'false',
        CI: 'true',
      },
    },
  );
  assert.equal(status, 0, stdout + stderr);
  for (const binding of ['env.DB', 'env.APP', 'env.BUCKET', 'env.HOST', 'env.RUNNER_TOKEN']) {
    assert.ok(stdout.includes(binding), binding);
  }
});

test('the bundle imports no Node module', async () => {
  const script = await bundleHandlers();
  const imports = [...script.matchAll(/^import .* from "([^"]+)"/gm)].map((match) => match[1]);
  assert.deepEqual([...new Set(imports)], ['cloudflare:workers']);
});

test('the Worker reads every variable of the project', () => {
  const declared = readFileSync('wrangler.toml', 'utf8').split('[vars]')[1]!;
  const names = [...declared.matchAll(/^([A-Z_]+) =/gm)].map((match) => match[1]);
  const env = readFileSync('handlers/bindings.ts', 'utf8');
  const texts = [...env.matchAll(/^ {2}([A-Z_]+): (?:string|'.*');/gm)].map((match) => match[1]);
  assert.deepEqual(names.sort(), texts.sort());
});
