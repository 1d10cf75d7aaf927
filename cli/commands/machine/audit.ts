// Commands for the audit log.
import type { Params, Result } from '../../../handlers/contract/index.ts';
import { auditInterface } from '../../../handlers/contract/people/audit.ts';
import { type Command, command, type Input, textOf } from '../../command.ts';
import type { Session } from '../../session.ts';
import { ago, plain, table } from '../../show.ts';

type Page = Result<'audit.list'>;
type Entry = Page['items'][number];

/** Entries per request of `audit export`. */
const PAGE = 200;
/** Maximum entries that `audit list` shows. */
const SHOWN = 50;

const filters = [
  { flags: '--account <id>', summary: 'only changes by this account' },
  { flags: '--on <app>', summary: 'only changes of this app' },
  { flags: '--operation <name>', summary: 'only changes by this operation, such as apps.delete' },
  {
    flags: '--via <interface>',
    summary: 'only changes through this interface',
    choices: auditInterface.options,
  },
  { flags: '--refused', summary: 'only changes that did not succeed' },
  { flags: '--since <time>', summary: 'only changes of this time or later, such as 2026-11-01T00:00:00Z' },
  { flags: '--until <time>', summary: 'only changes before this time' },
];

export const auditCommands: readonly Command[] = [
  command({
    words: 'audit list',
    summary: `Lists the last ${SHOWN} changes by your account; with the runner token, by all accounts`,
    options: filters,
    examples: ['audit', 'audit --on shop --refused'],
    answers: 'audit.list',
    run: (session, input) => session.call('audit.list', { ...filterOf(input), limit: SHOWN }),
    show: ({ items }) =>
      table(
        ['WHEN', 'WHO', 'WHAT', 'APP', 'DETAILS', 'VIA', 'ADDRESS', 'OUTCOME'],
        items.map(rowOf),
        'There are no such changes.',
      ),
  }),
  {
    words: 'audit export',
    summary:
      'Prints all changes by your account as lines of JSON, newest first; with the runner token, by all accounts',
    options: filters,
    examples: ['audit export --since 2026-11-01T00:00:00Z'],
    answers: null,
    run: async (session, input) => {
      const filter = filterOf(input);
      for await (const { items } of pagesOf(session, filter))
        session.place.out(items.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
      return null;
    },
  },
];

async function* pagesOf(session: Session, filter: Params<'audit.list'>): AsyncGenerator<Page> {
  let cursor: string | undefined;
  do {
    const page = await session.call('audit.list', { ...filter, limit: PAGE, ...(cursor && { cursor }) });
    yield page;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}

function filterOf(input: Input): Params<'audit.list'> {
  const given = (name: string) => textOf(input, name);
  const filter = {
    account: given('account'),
    app: given('on'),
    operation: given('operation'),
    via: given('via'),
    since: given('since'),
    until: given('until'),
  };
  return {
    ...Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined)),
    ...(input.refused === true && { outcome: 'refused' as const }),
  };
}

function rowOf({ at, account, name, operation, app, details, via, address, outcome }: Entry): string[] {
  const nobody = operation === 'sign_in' ? 'unknown' : 'runner token';
  const who = account === null ? nobody : (name ?? account);
  const named = Object.entries(details).map(([field, value]) => `${field}=${value}`);
  return [
    ago(at),
    plain(who),
    operation,
    app?.slug ?? '-',
    plain(named.join(' ')) || '-',
    via,
    address || '-',
    outcome,
  ];
}
