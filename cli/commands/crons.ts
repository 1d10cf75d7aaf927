// Commands that list an app's crons and their last runs, and that run one now.
import { type Command, command } from '../command.ts';
import { Stopped } from '../exit.ts';
import { whole } from '../session.ts';
import { ago, fields, plain, status, table } from '../show.ts';

export const cronCommands: readonly Command[] = [
  command({
    words: 'crons list',
    summary: "Lists an app's crons: when each runs next, and how it ran last",
    ofApp: true,
    examples: ['crons'],
    answers: 'crons.list',
    run: (session) => {
      const id = session.app();
      return whole((page) => session.call('crons.list', { id, ...page }));
    },
    show: ({ items }) =>
      table(
        ['CRON (UTC)', 'NEXT', 'LAST', 'TOOK', 'OUTCOME'],
        items.map(({ cron, next_at, last_run: last }) => [
          plain(cron),
          ago(next_at),
          ago(last?.at ?? null),
          last === null ? '-' : `${last.duration_ms} ms`,
          last === null
            ? '-'
            : `${status(last.outcome)}${last.error === null ? '' : `: ${plain(last.error)}`}`,
        ]),
        'The live release has no crons.',
      ),
  }),
  command({
    words: 'crons run',
    summary: 'Runs a cron now; a sleeping app also runs the cron, and stays asleep',
    ofApp: true,
    arguments: [
      {
        name: 'cron',
        summary: 'the expression of the cron; not needed for an app with one cron',
        optional: true,
      },
    ],
    examples: ['crons run "*/5 * * * *"'],
    answers: 'crons.run',
    run: async (session, input) => {
      const id = session.app();
      const cron = input.cron ?? (await onlyCron(session, id));
      return session.call('crons.run', { id, cron: String(cron) });
    },
    show: ({ outcome, duration_ms, error, trace_id }) =>
      fields([
        [
          'outcome',
          outcome === 'running' ? 'still running; `cellar crons` shows its result later' : status(outcome),
        ],
        ['took', duration_ms === null ? null : `${duration_ms} ms`],
        ['error', error && plain(error)],
        ['trace', trace_id],
      ]),
  }),
];

async function onlyCron(session: Parameters<Command['run']>[0], id: string): Promise<string> {
  const { items } = await session.call('crons.list', { id });
  const [only, ...others] = items;
  if (only !== undefined && others.length === 0) return only.cron;
  throw new Stopped(
    'usage',
    only === undefined
      ? 'The live release has no crons.'
      : 'The app has several crons: give the expression of the cron to run.',
    'cellar crons',
  );
}
