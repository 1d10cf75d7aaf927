// Runs as root too.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const MODULE = fileURLToPath(new URL('../../runtime/isolation/users.ts', import.meta.url));
/** Runs a command as root of a user namespace without other users, like a rootless container with too few users. */
const ROOTLESS = ['unshare', '--user', '--map-root-user'];

test('a rootless container with too few users says how many it needs', (t) => {
  const [file, ...words] = ROOTLESS;
  if (spawnSync(file!, [...words, 'true']).status !== 0) return t.skip('there are no user namespaces here');
  const script = `import { whyNoUsers } from ${JSON.stringify(MODULE)}; console.log(whyNoUsers([]));`;
  const node = [process.execPath, '--input-type=module', '-e', script];
  const { stdout, stderr } = spawnSync(file!, [...words, ...node], { encoding: 'utf8' });
  assert.match(stdout, /^this container has no user 32199999; .*subuid/, stderr);
});
