// Uploads by Wrangler whose sender loses the role, or the key, before they are deployed.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';
import { eventually } from '../../support/processes.ts';

const BYTES = 100_000;

let control: TestControl;
let id: string;
let account: string;
before(async () => {
  control = await TestControl.start();
  ({ id } = await control.create('shop'));
  ({ id: account } = await control.call('accounts.create', { name: 'one', email: 'one@example.com' }));
});
after(() => control.stop());

/** Begins an upload. `end` sends its second half, and returns the answer. */
function upload(method: string, path: string, key: string) {
  const ending = Promise.withResolvers<void>();
  const body = new ReadableStream({
    async start(controller) {
      controller.enqueue(new Uint8Array(BYTES / 2));
      await ending.promise;
      controller.enqueue(new Uint8Array(BYTES / 2));
      controller.close();
    },
  });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'multipart/form-data; boundary=x' };
  const init = { headers, body, duplex: 'half' } as RequestInit;
  const answer = control.fetch(method, `/client/v4/accounts/${account}/workers/scripts/${path}`, init);
  return {
    end() {
      ending.resolve();
      return answer;
    },
  };
}

const deploys = () => control.host.sent.filter(({ path }) => /^\/apps\/\w+\/versions\/\w+/.test(path));

for (const [method, path, what] of [
  ['PUT', 'shop', 'deploy'],
  ['POST', 'shop/versions', 'version'],
  ['PUT', 'shop-of-one', 'deploy of a new app'],
] as const) {
  test(`a ${what} that began before its sender lost the right to it is refused`, async () => {
    for (const isWhole of [false, true]) {
      await control.call('collaborators.set', { id, account, role: 'push' });
      const key = await control.call('keys.create', { account });
      const { begun, sent } = control.host;
      const received = sent.length;
      const held = Promise.withResolvers<void>();
      control.host.held = held.promise;
      const { end } = upload(method, path, key.key);
      await eventually(() => control.host.begun > begun, 'the upload reaches the host');
      const ended = isWhole ? end() : null;
      if (isWhole) await eventually(() => sent.length > received, 'the host has the upload');
      if (path === 'shop-of-one') await control.call('keys.revoke', { id: key.id });
      else await control.call('collaborators.remove', { id, account });
      held.resolve();
      const { status, body } = await (ended ?? end());
      const [expected, reason] =
        path === 'shop-of-one'
          ? [401, /The bearer token is wrong/]
          : [403, /The account of this API key has no role on the app\./];
      assert.equal(status, expected);
      assert.match(body.errors[0].message, reason);
      if (!isWhole)
        assert.match(body.errors[0].message, /^Your rights changed before the end of the request\. /);
      assert.deepEqual(deploys(), []);
      assert.equal((await control.api('GET', '/v1/apps/shop-of-one')).status, 404);
    }
  });
}
