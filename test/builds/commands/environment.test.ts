// The environment variables that build commands get.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildEnvironment } from '../../../runtime/builds/commands/environment.ts';
import { writeFiles } from '../../support/builds/projects.ts';
import { cpuTime } from '../../support/cpu-time.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

process.env.npm_config_registry = 'https://registry.npmjs.org/';

const environmentOf = (project: string) =>
  buildEnvironment(
    { project, home: '/h', temporary: '/t', cache: '/c' },
    {},
    { isPages: false, folder: 'web', installFolder: '' },
  );

test('the default registry does not override the registry that the project names', async (t) => {
  const registryFor = async (files: Record<string, string>) => {
    const project = temporaryDirectory(t);
    writeFiles(project, files);
    const environment = await environmentOf(project);
    return [environment.npm_config_registry, environment.YARN_NPM_REGISTRY_SERVER];
  };
  const usual = ['https://registry.npmjs.org/', 'https://registry.npmjs.org/'];
  assert.deepEqual(
    await registryFor({ '.npmrc': '@own:registry=https://npm.example.com/\nfund=false\n' }),
    usual,
  );
  for (const files of [
    { '.npmrc': 'fund=false\nregistry = https://npm.example.com/\n' },
    { 'web/.npmrc': 'registry=https://npm.example.com/' },
    { '.yarnrc.yml': 'npmRegistryServer: "https://npm.example.com"' },
    { '.yarnrc': 'registry "https://npm.example.com"' },
    { 'bunfig.toml': '[install]\nregistry = "https://npm.example.com"' },
  ])
    assert.deepEqual(await registryFor(files), [undefined, undefined], JSON.stringify(files));
});

test('registry settings full of newlines cost the host little CPU time', async (t) => {
  const project = temporaryDirectory(t);
  const empty = '\n'.repeat(64 * 1024);
  writeFiles(project, { '.npmrc': empty, '.yarnrc': empty, 'web/.npmrc': empty });
  const spent = cpuTime();
  await environmentOf(project);
  assert.ok(spent() < 500, `${spent()} ms`);
});
