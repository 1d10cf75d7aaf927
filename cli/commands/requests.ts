// Commands for an app's requests: a list of them, the trace of one, and where visitors come from.
import type { Result } from '../../handlers/contract/index.ts';
import { type Command, command, type Input, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import { ago, plain, table } from '../show.ts';

const LINES = 50;
const RANGE_HOURS = 24;
const MOST_HOURS = 720;
const starts = ['cold', 'warm'] as const;
const ofHours = {
  flags: '--hours <count>',
  summary: `how many hours to look back; ${RANGE_HOURS} by default`,
};

export const requestCommands: readonly Command[] = [
  command({
    words: 'requests',
    summary: 'Lists requests of the last 24 hours, newest first',
    ofApp: true,
    options: [
      { flags: '-n, --lines <count>', summary: `number of requests; ${LINES} by default, 200 at most` },
      { flags: '--status <status>', summary: 'only requests with this status, such as 404 or 5xx' },
      { flags: '--method <method>', summary: 'only requests with this method' },
      { flags: '--path <text>', summary: 'only requests whose path contains this text' },
      { flags: '--slower <ms>', summary: 'only requests that took at least this many milliseconds' },
      {
        flags: '--start <start>',
        summary: 'only requests that started the process (cold), or found it running (warm)',
        choices: starts,
      },
    ],
    examples: ['requests', 'requests --status 5xx', 'requests --path /api --slower 500'],
    answers: 'requests.list',
    run: (session, input) => {
      const [status, method, path] = ['status', 'method', 'path'].map((name) => textOf(input, name));
      const slow = wholeNumber(input, 'slower', 86_400_000);
      return session.call('requests.list', {
        id: session.app(),
        limit: wholeNumber(input, 'lines', 200) ?? LINES,
        ...(status !== undefined && { status }),
        ...(method !== undefined && { method: method.toUpperCase() }),
        ...(path !== undefined && { path }),
        ...(slow !== undefined && { min_ms: slow }),
        ...(input.start !== undefined && { cell_start: input.start as (typeof starts)[number] }),
      });
    },
    show: ({ items }) =>
      table(
        ['WHEN', 'STATUS', 'TOOK', 'START', 'TRACE', 'REQUEST'],
        items.map((each) => [
          ago(each.started_at),
          String(each.status),
          `${Math.round(each.duration_ms)} ms`,
          each.cell_start ?? '-',
          each.trace_id,
          `${each.method} ${plain(each.path)}${each.skipped > 0 ? ` (${each.skipped} earlier left out)` : ''}`,
        ]),
        'There are no such requests.',
      ),
  }),
  command({
    words: 'trace',
    summary: 'Shows the calls that a request waited for, such as queries',
    ofApp: true,
    arguments: [
      { name: 'trace', summary: 'the id of the trace of the request, as `cellar requests` lists it' },
    ],
    examples: ['trace 0af7651916cd43dd8448eb211c80319c'],
    answers: 'traces.get',
    run: (session, input) => session.call('traces.get', { id: session.app(), trace_id: String(input.trace) }),
    show: shownTrace,
  }),
  breakdown('paths', 'Counts requests by path', 'paths.list', ({ path }) => path ?? 'others'),
  breakdown(
    'referrers',
    'Counts requests by the host that referred to them',
    'refs.list',
    ({ referrer, source }) => referrer ?? (source === 'none' ? 'none' : 'others'),
  ),
  breakdown('devices', 'Counts requests by device', 'devices.list', ({ kind, client, os }) =>
    [kind, client, os].filter((part) => part !== null).join(' '),
  ),
  breakdown(
    'countries',
    "Counts requests by the client's country",
    'countries.list',
    ({ country }) => country ?? 'unknown',
  ),
];

type ItemOf<Name extends Breakdown> = Result<Name> extends { items: (infer Item)[] } ? Item : never;
type Breakdown = 'paths.list' | 'refs.list' | 'devices.list' | 'countries.list';

function breakdown<Name extends Breakdown>(
  word: string,
  summary: string,
  name: Name,
  nameOf: (item: ItemOf<Name>) => string,
): Command {
  return command({
    words: `traffic ${word}`,
    summary,
    ofApp: true,
    options: [ofHours],
    examples: [`traffic ${word}`, `traffic ${word} --hours 168`],
    answers: name as Breakdown,
    run: (session, input) =>
      session.call(name as Breakdown, {
        id: session.app(),
        hours: wholeNumber(input, 'hours', MOST_HOURS) ?? RANGE_HOURS,
        limit: LINES,
      }),
    show: ({ items }) =>
      table(
        ['REQUESTS', 'FAILED', word.toUpperCase()],
        items.map((item) => [
          String(item.requests),
          String(item.errors),
          plain(nameOf(item as ItemOf<Name>)),
        ]),
        'There were no requests.',
      ),
  });
}

function shownTrace({ spans, calls }: Result<'traces.get'>): string {
  const requests = spans.map(
    ({ method, path, status, duration_ms }) =>
      `${method} ${plain(path)}: ${status} after ${Math.round(duration_ms)} ms`,
  );
  const waits = table(
    ['MS', 'KIND', 'CALL', 'IN', 'OF'],
    calls.map(({ duration_ms, kind, name, handler, detail, failed }) => [
      String(duration_ms),
      kind,
      `${plain(name)}${failed ? ' (failed)' : ''}`,
      plain(handler),
      plain(detail ?? '-'),
    ]),
    'No calls of this request were recorded.',
  );
  return [...requests, waits].join('\n');
}

/** Returns the number of an option; undefined without it. @throws {Stopped} when it is no whole number from 1 to `most` */
function wholeNumber(input: Input, name: string, most: number): number | undefined {
  const text = textOf(input, name);
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,8}$/.test(text) && Number(text) <= most) return Number(text);
  throw new Stopped('usage', `--${name} must be a number from 1 to ${most}.`, 'cellar requests --help');
}
