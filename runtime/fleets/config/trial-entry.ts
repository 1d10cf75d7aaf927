// What a trial asks of a Worker that crons or queues call: whether it has the handlers for them.
import type { Release } from '../../../bundler/release.ts';
import type { Fields } from './capnp.ts';

/** How a line begins that says what is missing. */
export const MISSING_HANDLER = "The Worker's default export has no handler";

/** A release's Worker, as workerd's config has it, with an entry before its own that says which handlers are missing. */
export function triedWorker(worker: Fields, { triggers }: Release): Fields {
  const [entry, ...others] = worker.modules as { name: string }[];
  const needed = [
    ...(triggers?.crons.length ? [['scheduled', 'triggers.crons']] : []),
    ...(triggers?.consumers.length ? [['queue', 'queues.consumers']] : []),
  ];
  const from = JSON.stringify(`./${entry!.name}`);
  const esModule = `
import app from ${from};
export * from ${from};
export { default } from ${from};
const handlers = typeof app === 'function' ? app.prototype : app;
for (const [name, key] of ${JSON.stringify(needed)}) {
  if (typeof handlers?.[name] !== 'function') {
    console.error(${JSON.stringify(MISSING_HANDLER)} + ' ' + name + '(), which ' + key + ' needs');
  }
}
`;
  return { ...worker, modules: [{ name: 'cellar-trial.js', esModule }, entry!, ...others] };
}
