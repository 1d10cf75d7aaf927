// Random programs of requests, sleeps, wakes, stops, pushes and kills on one app of a real Cellar.
import { after, before, test } from 'node:test';
import * as fc from 'fast-check';
import { Cellar } from '../support/e2e/cellar.ts';
import { AppLife } from '../support/e2e/life-model.ts';
import { programs } from '../support/e2e/life-programs.ts';
import { randomCases } from '../support/random.ts';

// The sweep may hit any step: each second it puts apps to sleep that were unused for a second.
const cellar = new Cellar({
  RUNNER_SLEEP_AFTER_H: '0.0003',
  RUNNER_SLEEP_SWEEP_S: '1',
  RUNNER_FLEET_IDLE_EVICT_S: '0',
});
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

test('an app answers or says why not under any concurrent actions, and no write is lost', async () => {
  const life = new AppLife(cellar);
  await life.deploy();
  const property = fc.asyncProperty(programs, async (program) => {
    const from = cellar.output.length;
    await life.run(program).catch((error: unknown) => {
      throw new Error(`the host printed:\n${cellar.output.slice(from)}`, { cause: error });
    });
  });
  // No shrinking: the outcome depends on timing, so a shorter program may not fail again.
  await fc.assert(property, { ...randomCases(5), endOnFailure: true });
});
