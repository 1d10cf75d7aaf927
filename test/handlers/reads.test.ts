// Reads of one batch share one database call.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../support/handlers/control.ts';

let control: TestControl;
let id: string;
before(async () => {
  control = await TestControl.start();
  ({ id } = await control.create('read'));
  await control.api('POST', `/v1/apps/${id}/env`, { name: 'A', value: '1' });
  await control.call('events.log', { id, channel: 'c', event: 'e' });
  await control.call('insights.set', { id, title: 't', value: 1 });
  await control.call('users.identify', { id, user_id: 'u', properties: { a: 1 } });
});
after(() => control.stop());

const batch = async (calls: [method: string, params: object][]) => {
  const message = calls.map(([method, params], n) => ({ jsonrpc: '2.0', id: n, method, params }));
  return (await control.rpc(message)).body;
};

test('reads in a batch answer as they do alone, refusals included', async () => {
  const calls: [string, object][] = [
    ['apps.list', {}],
    ['apps.get', { id }],
    ['apps.get', { id: 'nope' }],
    ['apps.get_by_slug', { slug: 'read' }],
    ['env.list', { id }],
    ['domains.list', { id: 'nope' }],
    ['events.list', { id }],
    ['events.channels', { id }],
    ['users.props', { id, user_id: 'u' }],
    ['users.props', { id, user_id: 'nobody' }],
    ['insights.list', { id }],
    ['deploys.list', { id }],
    ['deploys.log', { id, deploy_id: 'nope' }],
    ['accounts.list', {}],
    ['collaborators.list', { id }],
    ['git.remote', { id }],
    ['limits.get', { id }],
    ['builds.get', { id }],
  ];
  const answers = await batch(calls);
  for (const [n, [method, params]] of calls.entries()) {
    const alone = (await control.rpc({ jsonrpc: '2.0', id: n, method, params })).body;
    assert.deepEqual(answers[n], alone, method);
  }
});

test('a read that fails with an internal error does not fail the others of its batch', async () => {
  const database = await control.database();
  await database.prepare('DROP TABLE insights').run();
  const [app, broken, variables] = await batch([
    ['apps.get', { id }],
    ['insights.list', { id }],
    ['env.list', { id }],
  ]);
  assert.equal(app.result.id, id);
  assert.equal(broken.error.data.code, 'internal_error');
  assert.equal(variables.result.items.length, 1);
});
