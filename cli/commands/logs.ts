// Commands for an app's log and its errors.
import type { Result } from '../../handlers/contract/index.ts';
import { type Command, command, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import type { Session } from '../session.ts';
import { whole } from '../session.ts';
import { ago, fields, firstLine, plain, status, styled, table } from '../show.ts';

type LogLine = Result<'logs.stream'>;
type Levels = 'debug' | 'info' | 'warn' | 'error';

const LINES = 100;
const levels = ['debug', 'info', 'warn', 'error'] as const;
const statuses = ['open', 'resolved', 'ignored'] as const;
const fingerprint = {
  name: 'fingerprint',
  summary: 'the fingerprint of the error, as `cellar errors` lists it',
};

export const logCommands: readonly Command[] = [
  command({
    words: 'logs',
    summary: "Prints the end of an app's log, oldest line first",
    ofApp: true,
    options: [
      { flags: '-f, --follow', summary: 'keep printing new lines as the app prints them' },
      { flags: '-n, --lines <count>', summary: `number of lines; ${LINES} by default, 200 at most` },
      { flags: '--level <level>', summary: 'only lines of this level or above', choices: levels },
      { flags: '--search <text>', summary: 'only lines with this text' },
      { flags: '--preview <name>', summary: "the log of this preview in place of the app's" },
    ],
    examples: ['logs', 'logs -f --level warn', 'logs --search checkout --json'],
    answers: 'logs.list',
    follows: 'logs.stream',
    run: async (session, input) => {
      const filters = {
        id: session.app(),
        ...(input.level !== undefined && { level: input.level as Levels }),
        ...(input.search !== undefined && { search: String(input.search) }),
        ...(input.preview !== undefined && { preview: String(input.preview) }),
      };
      const list = (limit: number) => session.call('logs.list', { ...filters, limit });
      const limit = countOf(textOf(input, 'lines'));
      if (input.follow !== true) {
        const found = await list(limit);
        if (found.items.length === 0) session.place.say('There are no such lines in the last 24 hours.\n');
        return found;
      }
      // The stream starts after the newest line, even if the filters exclude that line.
      const { level: _, search: __, ...all } = filters;
      const newest = await session.call('logs.list', { ...all, limit: 1 });
      const lines = await list(limit);
      const print = (line: LogLine) =>
        session.place.out(`${session.json ? JSON.stringify(line) : shownLine(line)}\n`);
      for (const line of lines.items.toReversed()) print(line);
      const last = Math.max(...[...newest.items, ...lines.items].map((line) => Number(line.id)), 0);
      await follow(session, filters, last, print);
      return { items: [], next_cursor: null };
    },
    show: ({ items }) => items.toReversed().map(shownLine).join('\n'),
  }),
  command({
    words: 'errors list',
    summary: 'Lists grouped errors, most recent first',
    ofApp: true,
    options: [
      {
        flags: '--status <status>',
        summary: 'only errors with this status; by default open',
        choices: statuses,
      },
      { flags: '--preview <name>', summary: "the errors of this preview in place of the app's" },
    ],
    examples: ['errors', 'errors --status resolved'],
    answers: 'errors.list',
    run: (session, input) => {
      const id = session.app();
      const status = (input.status ?? 'open') as (typeof statuses)[number];
      const of = input.preview === undefined ? {} : { preview: String(input.preview) };
      return whole((page) => session.call('errors.list', { id, status, ...of, ...page }));
    },
    show: ({ items }) =>
      table(
        ['FINGERPRINT', 'COUNT', 'LAST SEEN', 'PLACE', 'ERROR'],
        items.map((error) => [
          error.fingerprint,
          String(error.count),
          ago(error.last_seen_at),
          error.place ?? '-',
          `${error.kind}: ${firstLine(error.message)}`,
        ]),
        'There are no errors with this status.',
      ),
  }),
  command({
    words: 'errors show',
    summary: 'Shows one grouped error with its last occurrence',
    ofApp: true,
    arguments: [fingerprint],
    examples: ['errors show 3f2a9c'],
    answers: 'errors.get',
    run: (session, input) =>
      session.call('errors.get', { id: session.app(), fingerprint: String(input.fingerprint) }),
    show: (error) => {
      const last = error.occurrences[0];
      return fields([
        ['error', `${error.kind}: ${plain(error.message)}`],
        ['status', status(error.status)],
        ['seen', `${error.count} times, first ${ago(error.first_seen_at)}, last ${ago(error.last_seen_at)}`],
        ['place', error.place],
        ['request', error.method && `${error.method} ${plain(error.path ?? '')}`],
        ['stack', last?.stack ? `\n${plain(last.stack)}` : null],
      ]);
    },
  }),
  setsStatus('resolve', 'Marks a grouped error as resolved; it reopens when it occurs again', 'resolved'),
  setsStatus('ignore', 'Ignores a grouped error from now on', 'ignored'),
  setsStatus('reopen', 'Opens a grouped error again', 'open'),
];

function setsStatus(word: string, summary: string, to: (typeof statuses)[number]): Command {
  return command({
    words: `errors ${word}`,
    summary,
    ofApp: true,
    arguments: [fingerprint],
    examples: [`errors ${word} 3f2a9c`],
    answers: 'errors.set_status',
    run: (session, input) =>
      session.call('errors.set_status', {
        id: session.app(),
        fingerprint: String(input.fingerprint),
        status: to,
      }),
    show: (error) => `${error.fingerprint} is ${error.status}`,
  });
}

/**
 * Prints new lines until a person interrupts the command.
 * @param last the id of the newest existing line; 0 when there is none
 * @throws {Stopped} when the stream ends
 */
async function follow(
  session: Session,
  filters: { id: string; level?: Levels; search?: string },
  last: number,
  print: (line: LogLine) => void,
): Promise<void> {
  const { signal } = session.place;
  try {
    for await (const event of session.client.stream(
      'logs.stream',
      { ...filters, ...(last > 0 && { last_event_id: String(last) }) },
      { signal },
    )) {
      if (event.reset) session.place.say(`Lines were left out: ${event.reason}\n`);
      else print(event.data);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  if (!signal.aborted) throw new Stopped('unavailable', 'The stream of the log ended.', 'cellar logs -f');
}

function countOf(text: string | undefined): number {
  if (text === undefined) return LINES;
  if (/^[1-9]\d{0,2}$/.test(text) && Number(text) <= 200) return Number(text);
  throw new Stopped('usage', '--lines must be a number from 1 to 200.', 'cellar logs --help');
}

function shownLine(line: LogLine): string {
  const time = styled('dim', line.at.slice(11, 23));
  const source = line.source === 'app' ? '' : styled('dim', `[${line.source}] `);
  return `${time} ${status(line.level)}${' '.repeat(6 - line.level.length)}${source}${plain(line.text)}`;
}
