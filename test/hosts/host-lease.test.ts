// Work that only one of several hosts does at a time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { smallObjects } from '../../runtime/bucket/s3-store.ts';
import { HostLease } from '../../runtime/snapshots/host-lease.ts';
import { aborted } from '../../runtime/threads/aborted.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { eventually } from '../support/processes.ts';

const TIMES = { leaseMs: 400, renewMs: 50, lookMs: 10 };
const never = new AbortController().signal;
const NAME = 'of/cellar/host-leases/work.json';

function leaseOf(memory: MemoryStore, self: string, times = TIMES): HostLease {
  return new HostLease('work', { store: smallObjects(memory.place('of/cellar/')), self, ...times });
}

test('hosts work one after another, however long that takes', async () => {
  await using memory = await new MemoryStore().start();
  let running = 0;
  const order: string[] = [];
  // A long lease, because a busy machine renews it late.
  const times = { ...TIMES, leaseMs: 60_000 };
  const until = (): number => JSON.parse(memory.objects.get(NAME)!.body.toString()).until;
  await Promise.all(
    ['a', 'b', 'c'].map((self) =>
      leaseOf(memory, self, times).run(never, async (signal) => {
        assert.equal(++running, 1);
        order.push(self);
        const before = until();
        await eventually(() => until() > before + 10 * TIMES.renewMs, 'it is renewed');
        assert.equal(signal.aborted, false);
        running--;
      }),
    ),
  );
  assert.deepEqual(order.toSorted(), ['a', 'b', 'c']);
});

test('the lease of a lost host is taken over once it has expired, and that of this host at once', async () => {
  await using memory = await new MemoryStore().start();
  const left = { host: 'lost', until: Date.now() + 300 };
  await smallObjects(memory.place()).write(NAME, Buffer.from(JSON.stringify(left)));
  const at = await leaseOf(memory, 'a').run(never, async () => Date.now());
  assert.ok(at >= left.until);
  const own = { host: 'a', until: Date.now() + 3_600_000 };
  await smallObjects(memory.place()).write(NAME, Buffer.from(JSON.stringify(own)));
  assert.equal(await leaseOf(memory, 'a').run(never, async () => 1), 1);
});

test('work is aborted when another host may do it, and a wait when its caller leaves', async () => {
  await using memory = await new MemoryStore().start();
  await assert.rejects(
    leaseOf(memory, 'a').run(never, async (signal) => {
      const other = { host: 'b', until: Date.now() + 3_600_000 };
      await smallObjects(memory.place()).write(NAME, Buffer.from(JSON.stringify(other)));
      await aborted(signal);
    }),
    /another host may do the same work now/,
  );
  assert.match(memory.objects.get(NAME)!.body.toString(), /"host":"b"/, 'the lease of the other stays');
  const gone = AbortSignal.timeout(100);
  await assert.rejects(
    leaseOf(memory, 'a').run(gone, async () => {}),
    /abort|timeout/i,
  );
});

test('work is aborted before its lease ends while the bucket does not answer', {
  timeout: 60_000,
}, async () => {
  await using memory = await new MemoryStore().start();
  await assert.rejects(
    leaseOf(memory, 'a').run(never, async (signal) => {
      memory.faults = { isBusy: true };
      await aborted(signal);
    }),
    /another host may do the same work now/,
  );
});
