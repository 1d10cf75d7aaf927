import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Budget } from '../../runtime/app-services/budget.ts';

const MIB = 2 ** 20;

test('one account leaves half of the budget to the others, and the refusal names the limit', () => {
  const budget = new Budget(8 * MIB, (limit) => new Error(limit));
  const [one, two] = [budget.begin('greedy'), budget.begin('greedy')];
  assert.equal(one.take(3 * MIB), true);
  assert.equal(two.take(2 * MIB), false);
  assert.throws(() => two.check(), /^Error: 4 MiB of memory for one account$/);
  const others = [budget.begin('modest'), budget.begin('another')] as const;
  assert.equal(others[0].take(4 * MIB), true);
  assert.equal(others[1].take(2 * MIB), false);
  assert.throws(() => others[1].check(), /^Error: 8 MiB of memory for all accounts together$/);
  one.giveAll();
  assert.equal(budget.begin('greedy').take(4 * MIB), true);
  assert.doesNotThrow(() => one.check());
});
