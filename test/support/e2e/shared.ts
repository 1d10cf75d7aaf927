// Cellars that several test files share, because a start takes longer than most tests.
import { after, before } from 'node:test';
import { Cellar } from './cellar.ts';

const cellars = new Map<string, Cellar>();

/**
 * Returns the Cellar of a group of test files, which `scripts/test.ts` runs one after another in one process.
 * Names of apps and accounts must differ between the files, and no file may count what other files make. No file may have
 * a `before` hook: the runner would call it while the Cellar still starts.
 * @param group the group's name, as a literal in each file
 */
export function sharedCellar(group: string): Cellar {
  const known = cellars.get(group);
  if (known !== undefined) return known;
  const cellar = new Cellar({ RUNNER_MAX_APPS_PER_USER: '100' });
  before(() => cellar.start());
  after(() => cellar[Symbol.asyncDispose]());
  cellars.set(group, cellar);
  return cellar;
}
