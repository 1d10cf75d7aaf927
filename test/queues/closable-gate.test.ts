import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClosableGate } from '../../runtime/queues/closable-gate.ts';

test('a gate closes once all work has ended, refuses more meanwhile, and opens again', async () => {
  const gate = new ClosableGate('later');
  const first = Promise.withResolvers<void>();
  const order: string[] = [];
  const running = gate.during(async () => {
    await first.promise;
    order.push('work');
  });
  const closed = gate.closed(async () => {
    order.push('closed');
  });
  await assert.rejects(
    gate.during(async () => {}),
    { message: 'later', status: 503 },
  );
  await assert.rejects(
    gate.closed(async () => {}),
    { message: 'later', status: 503 },
  );
  first.resolve();
  await Promise.all([running, closed]);
  assert.deepEqual(order, ['work', 'closed']);
  assert.equal(await gate.during(async () => 'again'), 'again');
});
