// Open streams whose reader loses rights, also at another host, which does not tell this host; and bodies of such senders.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

// Imported by their paths: they are written for workerd, whose types are missing here.
const handlers = (path: string) => import(new URL(`../../../handlers/${path}`, import.meta.url).href);
const { whileAllowed, sendWhileAllowed } = (await handlers('transports/while-allowed.ts')) as {
  whileAllowed: (...given: unknown[]) => ReadableStream;
  sendWhileAllowed: (...given: unknown[]) => Promise<string>;
};
const { loseRights, rightsLost } = await handlers('access.ts');
const { Problem } = await handlers('problem.ts');
Object.assign(globalThis, { IdentityTransformStream: TransformStream });

/**
 * Opens a stream on a host. `pass` lets a minute pass, and returns how often the stream checked its reader.
 * @param opening called after the reader was authorized, and before the stream opens
 */
function open(t: TestContext, HOST_ID: string, opening = () => {}) {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'] });
  let asked = 0;
  let isRevoked = false;
  const actor = { kind: 'account', id: 'reader', runs: true, key: null };
  const whoNow = async () => {
    asked++;
    if (isRevoked) throw new Problem('unauthorized');
    return actor;
  };
  const began = { at: new Date().toISOString(), losses: rightsLost() };
  const context = { ...began, env: { HOST_ID }, actor, whoNow, reads: {}, waitUntil: () => {} };
  opening();
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

test('a stream ends whose reader loses the right while it opens', async (t) => {
  const { pass, revoke, end } = open(t, '', loseRights);
  revoke();
  const later = pass().then(() => ({ done: false }));
  assert.equal((await Promise.race([end, later])).done, true);
});

test('a body is refused whose sender loses the right before its first chunk is sent on', async () => {
  const context = { at: new Date().toISOString(), losses: rightsLost() };
  loseRights();
  const { body, headers } = new Response('pack');
  const check = async () => {
    throw new Problem('forbidden');
  };
  const sent = sendWhileAllowed(context, { headers }, body, check, (sending: ReadableStream) =>
    new Response(sending).text(),
  );
  await assert.rejects(sent, { code: 'forbidden' });
});
