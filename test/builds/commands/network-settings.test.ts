// Which npm settings of this machine are passed to builds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { npmSettings } from '../../../runtime/builds/commands/network-settings.ts';

test('builds get the npm settings except registries with a password', async () => {
  process.env.npm_config_registry = 'http://ada:s3cret@127.0.0.1:9/';
  process.env.npm_config_https_proxy = 'http://127.0.0.1:8/';
  const settings = await npmSettings();
  assert.deepEqual(
    [settings.npm_config_registry, settings.npm_config_https_proxy],
    [undefined, 'http://127.0.0.1:8/'],
  );
});
