// The environment variables that build commands get.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildEnvironment } from '../../../runtime/builds/commands/environment.ts';
import { writeFiles } from '../../support/builds/projects.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

process.env.npm_config_registry = 'https://registry.npmjs.org/';

test('the default registry does not override the registry that the project names', async (t) => {
  const registryFor = async (files: Record<string, string>) => {
    const project = temporaryDirectory(t);
    writeFiles(project, files);
    const directories = { project, home: '/h', temporary: '/t', cache: '/c' };
    const plan = { isPages: false, folder: 'web', installFolder: '' };
    const environment = await buildEnvironment(directories, {}, plan);
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
