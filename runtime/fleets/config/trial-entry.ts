// The checks of a trial: does any event call the Worker, and does it have the handlers that its triggers need?
import { readFileSync } from 'node:fs';
import type { Release } from '../../../bundler/release.ts';
import type { Fields } from './capnp.ts';
import { CAPTURE, ENTRY } from './entry.ts';

/** Line prefixes: why the Worker cannot be deployed, and a note for its deploy log. */
export const TRIAL_FAULT = 'cellar trial, fault: ';
export const TRIAL_NOTE = 'cellar trial, note: ';

const TRIAL_WORKER = readFileSync(new URL('./workers/trial-worker.js', import.meta.url), 'utf8');

/** The name of the module that prints such lines. */
const TRIAL = 'cellar-trial.js';

/** A release's Worker in workerd's config, with an entry that prints such lines before its own. */
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
  // Runs before the entry, which adds handlers to the Worker.
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
