// Commands for the machines of a Cellar that runs on several.
import type { Result } from '../../../handlers/contract/index.ts';
import { type Command, command, textOf } from '../../command.ts';
import { whole } from '../../session.ts';
import { ago, bytes, many, plain, status, table } from '../../show.ts';

type Host = Result<'hosts.list'>['items'][number];

const name = { name: 'host', summary: 'the name or id of the machine, as `cellar hosts` lists it' };

export const hostCommands: readonly Command[] = [
  command({
    words: 'hosts list',
    summary: 'Lists the machines of a Cellar that runs on several machines; needs the runner token',
    examples: ['hosts'],
    answers: 'hosts.list',
    run: (session) => whole((page) => session.call('hosts.list', page)),
    show: ({ items }) =>
      table(
        ['HOST', 'ID', 'STATE', 'ADDRESS', 'VERSION', 'APPS', 'FREE MEMORY', 'CPU', 'STARTED', 'CLOCK'],
        items.map((host) => [
          plain(host.name),
          host.id,
          status(host.state),
          host.address,
          host.version,
          appsOf(host),
          bytes(host.load?.memory_free_bytes ?? null),
          host.load === null ? '-' : `${Math.round(host.load.cpu * 100)}%`,
          ago(host.started_at),
          clockOf(host),
        ]),
        'This Cellar runs on one machine.',
      ),
  }),
  command({
    words: 'hosts drain',
    summary: 'Moves the apps of a machine to others, before it is shut down; needs the runner token',
    arguments: [name],
    options: [{ flags: '--undo', summary: 'let the machine have apps again' }],
    examples: ['hosts drain box2', 'hosts drain box2 --undo'],
    answers: 'hosts.drain',
    run: (session, input) =>
      session.call('hosts.drain', { host: textOf(input, 'host')!, drain: input.undo !== true }),
  }),
  command({
    words: 'hosts remove',
    summary: 'Removes a machine that was shut down or lost; needs the runner token',
    arguments: [name],
    examples: ['hosts remove box2 --yes'],
    answers: 'hosts.remove',
    destroys: ({ host }) =>
      `Remove the machine ${host}? Apps whose data is on that machine stay down until it is back.`,
    run: (session, input) => session.call('hosts.remove', { host: textOf(input, 'host')! }),
  }),
];

function appsOf({ apps, local_apps, load }: Host): string {
  const parts = [
    ...(load === null ? [] : [`${load.running} running`]),
    ...(local_apps === 0 ? [] : [`${many(local_apps, 'app')} with data on the machine`]),
  ];
  return parts.length === 0 ? String(apps) : `${apps} (${parts.join(', ')})`;
}

function clockOf({ clock_ahead_ms: ms }: Host): string {
  return ms === null ? '-' : `${ms > 0 ? '+' : ''}${(ms / 1_000).toFixed(1)} s`;
}
