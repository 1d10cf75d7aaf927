// What a trial asks of a Worker: whether anything would ever call it, and whether it has the handlers that its triggers need.
import { readFileSync } from 'node:fs';
import type { Release } from '../../../bundler/release.ts';
import type { Fields } from './capnp.ts';
import { CAPTURE, ENTRY } from './entry.ts';

/** How a line begins that says why the Worker cannot be deployed, and one for the log of its deploy. */
export const TRIAL_FAULT = 'cellar trial, fault: ';
export const TRIAL_NOTE = 'cellar trial, note: ';

const TRIAL_WORKER = readFileSync(new URL('./workers/trial-worker.js', import.meta.url), 'utf8');

/** The name of the module that prints such lines. */
const TRIAL = 'cellar-trial.js';

/** A release's Worker, as workerd's config has it, with an entry before its own that has such lines printed. */
export function triedWorker(
  worker: Fields,
  { worker: described, classes, triggers }: Pick<Release, 'worker' | 'classes' | 'triggers'>,
): Fields {
  const { modules, main } = described!;
  const needed = [
    ...(triggers?.crons.length ? [['scheduled', 'triggers.crons']] : []),
    ...(triggers?.consumers.length ? [['queue', 'queues.consumers']] : []),
  ];
  const facts = {
    file: main ?? modules[0]!.name,
    classes: classes.map(({ className }) => className),
    needed,
    fault: TRIAL_FAULT,
    note: TRIAL_NOTE,
  };
  const app = JSON.stringify(`./${modules[0]!.name}`);
  const trial = TRIAL_WORKER.replace("'cellar-app-entry'", () => app);
  // Before the entry, which adds to what the Worker has.
  const esModule = `
import './${CAPTURE}';
import './${TRIAL}';
export * from './${ENTRY}';
export { default } from './${ENTRY}';
`;
  return {
    ...worker,
    modules: [
      { name: 'cellar-trial-entry.js', esModule },
      { name: TRIAL, esModule: trial.replace("'cellar-facts'", () => JSON.stringify(facts)) },
      ...(worker.modules as { name: string }[]),
    ],
  };
}
