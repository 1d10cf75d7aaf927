// An app's life on a real Cellar: requests, sleeps, wakes, stops, pushes and kills at once, in random programs.
import { after, before, test } from 'node:test';
import * as fc from 'fast-check';
import { Cellar } from '../support/e2e/cellar.ts';
import { AppLife } from '../support/e2e/life-model.ts';
import { programs } from '../support/e2e/life-programs.ts';
import { randomCases } from '../support/random.ts';

// A sweep each second, for which a second is quiet: it comes at any time of a program.
const cellar = new Cellar({
  RUNNER_SLEEP_AFTER_H: '0.0003',
  RUNNER_SLEEP_SWEEP_S: '1',
  RUNNER_FLEET_IDLE_EVICT_S: '0',
});
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

test('whatever happens to an app at once, it answers or says why not, and no write is lost', async () => {
  const life = new AppLife(cellar);
  await life.deploy();
  const property = fc.asyncProperty(programs, async (program) => {
    const from = cellar.output.length;
    await life.run(program).catch((error: unknown) => {
      throw new Error(`the host printed:\n${cellar.output.slice(from)}`, { cause: error });
    });
  });
  // Time is part of what is tested: the same program may come to something else, so none is made shorter.
  await fc.assert(property, { ...randomCases(5), endOnFailure: true });
});
