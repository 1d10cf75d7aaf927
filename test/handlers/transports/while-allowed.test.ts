// Open streams whose reader loses the key at another host, which does not tell this host.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

// Imported by their paths: they are written for workerd, whose types are missing here.
const handlers = (path: string) => import(new URL(`../../../handlers/${path}`, import.meta.url).href);
const { whileAllowed } = (await handlers('transports/while-allowed.ts')) as {
  whileAllowed: (...given: unknown[]) => ReadableStream;
};
const { Problem } = await handlers('problem.ts');
Object.assign(globalThis, { IdentityTransformStream: TransformStream });

/** Opens a stream on a host. `pass` lets a minute pass, and returns how often the stream checked its reader. */
function open(t: TestContext, HOST_ID: string) {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'] });
  let asked = 0;
  let isRevoked = false;
  const actor = { kind: 'account', id: 'reader', runs: true, key: null };
  const whoNow = async () => {
    asked++;
    if (isRevoked) throw new Problem('unauthorized');
    return actor;
  };
  const context = { env: { HOST_ID }, actor, whoNow, reads: {}, waitUntil: () => {} };
  const stream = whileAllowed(context, { needs: 'view' }, {}, new ReadableStream());
  return {
    end: stream.getReader().read(),
    revoke: () => {
      isRevoked = true;
    },
    async pass() {
      asked = 0;
      for (let second = 0; second < 60; second++) {
        t.mock.timers.tick(1_000);
        await turn();
      }
      return asked;
    },
  };
}

test('with several hosts an open stream checks its reader three times a minute, and ends after a revocation', async (t) => {
  const { pass, revoke, end } = open(t, 'one');
  assert.equal(await pass(), 3);
  revoke();
  assert.equal(await pass(), 1);
  assert.equal((await end).done, true);
});

test('on one host an open stream checks nothing while nobody loses rights', async (t) => {
  assert.equal(await open(t, '').pass(), 0);
});
