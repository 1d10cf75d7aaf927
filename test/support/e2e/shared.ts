// Cellars that several files of tests have in common: to start one takes longer than most of their tests do.
import { after, before } from 'node:test';
import { Cellar } from './cellar.ts';

const cellars = new Map<string, Cellar>();

/**
 * The Cellar of a group of files, which `scripts/test.ts` runs in one process, one after another. It runs while their tests do.
 * No two of these files may give apps or accounts the same name, none may count what the others make, and none has a hook
 * `before`: the runner would call it while this one still starts the Cellar.
 * @param group its name, written out in each of the files
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
