// Commands for the whole Cellar: statistics, snapshots, keys, and any operation.
import type { OperationName, Params } from '../../../handlers/contract/index.ts';
import { operationsByName } from '../../../handlers/contract/index.ts';
import { pathNames } from '../../../handlers/contract/operation.ts';
import { keyScope } from '../../../handlers/contract/people/accounts.ts';
import { type Command, command, textOf } from '../../command.ts';
import { Stopped } from '../../exit.ts';
import { whole } from '../../session.ts';
import { ago, bytes, fields, many, plain, table } from '../../show.ts';
import { restoreCommand } from './restore.ts';

/** Longest life of a key made here, in days. */
const MOST_DAYS = 3650;

const account = {
  flags: '--account <id>',
  summary: 'the account of the key, if it is not yours; needs the runner token',
};

export const machineCommands: readonly Command[] = [
  command({
    words: 'stats',
    summary: 'Shows the state of this Cellar in numbers; needs the runner token',
    examples: ['stats'],
    answers: 'admin.stats',
    run: (session) => session.call('admin.stats', {}),
    show: ({ apps, accounts, deploys, host }) =>
      fields([
        [
          'apps',
          `${apps.total} (${Object.entries(apps.by_status)
            .map(([word, n]) => `${n} ${word}`)
            .join(', ')})`,
        ],
        ['accounts', String(accounts)],
        ['deploys', `${deploys.total}, ${deploys.unfinished} under way`],
        [
          'running',
          host &&
            `${many(host.cells.running, 'process', 'processes')} with ${bytes(host.cells.memory_bytes)}`,
        ],
        ['memory', host && `${bytes(host.memory.used_bytes)} of ${bytes(host.memory.limit_bytes)}`],
        ['disk', host && `${bytes(host.disk.free_bytes)} free`],
        ['wakes', host && wakesOf(host.wakes)],
        ['snapshot', host && ago(host.snapshots.last_at)],
      ]),
  }),
  command({
    words: 'snapshot',
    summary: 'Takes a snapshot of all data; needs the runner token',
    examples: ['snapshot'],
    answers: 'admin.snapshot',
    run: (session) => session.call('admin.snapshot', {}),
    show: ({ key, bytes: written }) => `${key} (${bytes(written)} written)`,
  }),
  command({
    words: 'snapshots list',
    summary: 'Lists snapshots, newest first; needs the runner token',
    examples: ['snapshots'],
    answers: 'snapshots.list',
    run: (session) => whole((page) => session.call('snapshots.list', page)),
    show: ({ items }) =>
      table(
        ['SNAPSHOT', 'TAKEN', 'SIZE', 'APPS', 'WHY'],
        items.map((each) => [each.key, ago(each.created_at), bytes(each.bytes), String(each.apps), each.why]),
        'There are no snapshots. Next: cellar snapshot',
      ),
  }),
  command({
    words: 'snapshots verify',
    summary: 'Reads all data of the snapshots, and fails if any is damaged; needs the runner token',
    examples: ['snapshots verify'],
    answers: 'snapshots.verify',
    run: async (session) => {
      const verified = await session.call('snapshots.verify', {});
      const { snapshots, objects, damaged } = verified;
      if (damaged.length === 0) return verified;
      const lines = [
        ...damaged.map(
          ({ key, parts }) => `${key} cannot restore ${parts.map(({ name }) => name).join(', ')}`,
        ),
        ...objects.map(({ name, problem }) => `${name} is ${problem}`),
      ];
      throw new Stopped(
        'failed',
        `${damaged.length} of ${many(snapshots, 'snapshot')} cannot restore everything:\n${lines.join('\n')}`,
        'cellar snapshot',
      );
    },
    show: ({ snapshots, bytes: read }) =>
      `${many(snapshots, 'snapshot')} verified (${bytes(read)}): all are intact`,
  }),
  restoreCommand,
  command({
    words: 'keys list',
    summary: 'Lists API keys, without the keys themselves',
    options: [account],
    examples: ['keys'],
    answers: 'keys.list',
    run: async (session, input) => {
      const id = textOf(input, 'account') ?? (await session.call('accounts.me', {})).id;
      return whole((page) => session.call('keys.list', { account: id, ...page }));
    },
    show: ({ items }) =>
      table(
        ['KEY', 'NAME', 'MAY', 'APPS', 'MADE', 'EXPIRES', 'LAST USED'],
        items.map((key) => [
          key.id,
          plain(key.name),
          key.scope,
          key.app?.slug ?? 'all',
          ago(key.created_at),
          key.expires_at ?? 'never',
          ago(key.last_used_at),
        ]),
        'There are no API keys.',
      ),
  }),
  command({
    words: 'keys create',
    summary: 'Makes an API key, which is also the password for git, and prints it only once',
    arguments: [{ name: 'name', summary: 'a name for the key', optional: true }],
    options: [
      account,
      { flags: '--scope <scope>', summary: 'the maximum permission of the key', choices: keyScope.options },
      { flags: '--only <app>', summary: 'the only app that the key is for' },
      { flags: '--days <n>', summary: 'how many days until the key expires; left out: never' },
    ],
    examples: ['keys create laptop', 'keys create ci --scope deploy --only shop --days 90'],
    answers: 'keys.create',
    run: async (session, input) => {
      const id = textOf(input, 'account') ?? (await session.call('accounts.me', {})).id;
      const name = textOf(input, 'name');
      const app = textOf(input, 'only');
      const scope = textOf(input, 'scope');
      const days = textOf(input, 'days');
      return session.call('keys.create', {
        account: id,
        ...(name !== undefined && { name }),
        ...(app !== undefined && { app }),
        ...(scope !== undefined && { scope: keyScope.parse(scope) }),
        ...(days !== undefined && { expires_at: inDays(days) }),
      });
    },
    show: ({ key }) => key,
  }),
  command({
    words: 'keys revoke',
    summary: 'Revokes an API key',
    arguments: [{ name: 'id', summary: 'the id of the key, as `cellar keys` lists it' }],
    examples: ['keys revoke 0f9q2t6m8r4kx1zb --yes'],
    answers: 'keys.revoke',
    destroys: ({ id }) => `Revoke the key ${id}? Its users lose access at once.`,
    run: (session, { id }) => session.call('keys.revoke', { id: String(id) }),
  }),
  {
    words: 'call',
    summary: 'Runs any operation of the API by its name, and prints its answer as JSON',
    arguments: [
      {
        name: 'method',
        summary: 'the operation, such as apps.list; docs/operations-of-the-api.md lists all',
      },
      { name: 'params', summary: 'the params, an object in JSON; `-` reads standard input', optional: true },
    ],
    examples: ['call apps.list', `call logs.list '{"id": "shop", "limit": 5}'`],
    answers: null,
    run: async (session, input) => {
      const operation = operationsByName.get(String(input.method));
      if (operation === undefined)
        throw new Stopped('usage', `There is no operation ${input.method}.`, 'cellar call --help');
      const given = textOf(input, 'params') ?? '{}';
      const params = objectIn(given === '-' ? await session.place.input() : given);
      const missing = pathNames(operation.path ?? '').find((name) => !Object.hasOwn(params, name));
      if (missing !== undefined)
        throw new Stopped('usage', `${operation.name} needs the param ${missing}.`, 'cellar call --help');
      const name = operation.name as OperationName;
      if (operation.kind !== 'stream') {
        const answer = await session.call(name, params as Params<OperationName>);
        session.place.out(`${JSON.stringify(answer, null, 2)}\n`);
        return null;
      }
      const { signal } = session.place;
      try {
        for await (const event of session.client.stream(name, params as Params<OperationName>, { signal })) {
          if (!event.reset) session.place.out(`${JSON.stringify(event.data)}\n`);
        }
      } catch (error) {
        if (!signal.aborted) throw error;
      }
      return null;
    },
  },
];

/** Returns the time `days` days from now, in ISO 8601. @throws {Stopped} unless `days` is from 1 to `MOST_DAYS` */
function inDays(days: string): string {
  if (!/^[1-9]\d{0,3}$/.test(days) || Number(days) > MOST_DAYS)
    throw new Stopped(
      'usage',
      `--days must be a number from 1 to ${MOST_DAYS}.`,
      'cellar keys create --help',
    );
  return new Date(Date.now() + Number(days) * 24 * 3_600_000).toISOString();
}

function wakesOf({ count, p50_ms }: { count: number; p50_ms: number | null }): string {
  return p50_ms === null ? String(count) : `${count}, half of them within ${p50_ms} ms`;
}

function objectIn(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // Text that is not JSON is refused below.
  }
  throw new Stopped('usage', 'The params must be an object in JSON.', 'cellar call --help');
}
