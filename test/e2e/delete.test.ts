// Deleting an app while something goes on with it.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/e2e/processes.ts';

let cellar: Cellar;
before(async () => {
  cellar = await new Cellar().start();
});
after(() => cellar[Symbol.asyncDispose]());

test('an app is deleted at once while a release of it loops in its trial', async () => {
  const id = await cellar.create('looping');
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), 'for (;;);\nexport default { fetch: () => new Response() };\n');
  await cellar.commit(work, 'loops');
  const push = cellar.push(work, 'looping');
  const { body } = await cellar.call('GET', `/v1/apps/${id}`);
  assert.equal(body.slug, 'looping');
  await eventually(async () => {
    const { items } = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body;
    return items[0]?.steps.some((step: { name: string }) => step.name === 'start');
  }, 'the release is tried');
  const begun = performance.now();
  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
  // The trial alone would go on for 30 seconds.
  assert.ok(performance.now() - begun < 25_000);
  assert.equal((await push).code, 0);
  await eventually(() => cells(id).length === 0, 'no process of it is left');
});
