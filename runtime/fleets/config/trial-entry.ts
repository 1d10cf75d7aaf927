// The checks of a trial: does any event call the Worker, and does it have the handlers that its triggers need?
import type { Release } from '../../../bundler/release.ts';
import type { Fields } from './capnp.ts';
import { trialModules } from './entry.ts';
import { textOf } from './texts.ts';

/** Prefix of a line with the reason why the Worker cannot be deployed. */
export const TRIAL_FAULT = 'cellar trial, fault: ';
/** Prefix of a line with a note for the deploy log. */
export const TRIAL_NOTE = 'cellar trial, note: ';

const TRIAL_WORKER = textOf('./workers/trial-worker.js');

/** The name of the module that prints faults and notes. */
const TRIAL = 'cellar-trial.js';

/**
 * Returns a Worker of workerd's config with a further module, which prints faults and notes before the entry module runs.
 */
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
  const text = trial.replace("'cellar-facts'", () => JSON.stringify(facts));
  return { ...worker, modules: [...trialModules({ name: TRIAL, text }), ...(worker.modules as Fields[])] };
}
