import { Gate } from '../gate.ts';

/** Concurrent requests of one operation. */
const AT_ONCE = 16;

/** Does `work` for each item, a few at a time. Waits for all, then throws the first failure. */
export async function fewAtOnce<T>(items: T[], work: (item: T) => Promise<void>): Promise<void> {
  const gate = new Gate(AT_ONCE);
  const ended = await Promise.allSettled(items.map((item) => gate.during(() => work(item))));
  for (const each of ended) if (each.status === 'rejected') throw each.reason;
}
