// TCP ports of apps: each belongs to one app, and an account may have a limited number.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TCP_PORT_LIMIT } from '../../../handlers/contract/incoming/tcp-ports.ts';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start();
});
after(() => control.stop());

test('a port belongs to one app, which learns of it, until it is deleted', async () => {
  const { id } = await control.call('apps.create', { slug: 'first' });
  const { id: other } = await control.call('apps.create', { slug: 'second' });
  const { port } = await control.call('tcp.ports.set', { id, port: 20_100 });
  assert.equal(port, 20_100);
  assert.equal((await control.call('tcp.ports.set', { id, port })).app_id, id, 'again, without effect');
  assert.equal((await control.refusal('tcp.ports.set', { id: other, port })).code, 'tcp_port_taken');
  assert.equal((await control.refusal('tcp.ports.delete', { id: other, port })).code, 'tcp_port_not_found');
  await control.call('tcp.ports.delete', { id, port });
  assert.equal((await control.call('tcp.ports.set', { id: other, port })).app_id, other);
});

test('a port outside of the range is refused with the range', async () => {
  const { id } = await control.call('apps.create', { slug: 'outside' });
  for (const port of [19_999, 20_101]) {
    const { errors } = await control.refusal('tcp.ports.set', { id, port });
    assert.match(errors[0].message, /20000-20100/);
  }
});

test('the apps of an account have a number of ports together', async () => {
  const { id } = await control.call('apps.create', { slug: 'many' });
  const ports = Array.from({ length: TCP_PORT_LIMIT - 1 }, (_, i) => 20_000 + i);
  for (const port of ports) await control.call('tcp.ports.set', { id, port });
  // The account's last port belongs to an app of the first test.
  assert.equal((await control.refusal('tcp.ports.set', { id, port: 20_050 })).code, 'quota_exceeded');
  const first = await control.call('tcp.ports.list', { id, limit: 10 });
  const rest = await control.call('tcp.ports.list', { id, limit: 10, cursor: first.next_cursor });
  const listed = [...first.items, ...rest.items].map((each: { port: number }) => each.port);
  assert.deepEqual(listed, ports);
});
