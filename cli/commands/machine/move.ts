// The command that moves apps between the machine and the bucket, or to another machine.
import { Refused } from '../../../client/index.ts';
import type { Result } from '../../../handlers/contract/index.ts';
import { type Command, type Input, textCommand } from '../../command.ts';
import { Stopped } from '../../exit.ts';
import { type Session, whole } from '../../session.ts';
import { bytes, many } from '../../show.ts';

const PLACES = { local: 'to this machine', bucket: 'into the bucket' } as const;
/** Error codes that concern only one app: the other apps still move. */
const LEFT = ['app_immovable', 'forbidden'];
type To = keyof typeof PLACES;

interface Planned {
  slug: string;
  plan: Result<'apps.move'>;
}

export const moveCommand: Command = textCommand({
  words: 'move',
  summary: 'Moves an app with its data and code into the bucket, back to the machine, or to another machine',
  ofApp: true,
  arguments: [{ name: 'name', summary: 'the app, instead of --app', optional: true }],
  options: [
    {
      flags: '--to <place>',
      summary: 'where the app keeps its data afterwards',
      choices: ['local', 'bucket'],
    },
    {
      flags: '--host <name>',
      summary: 'the machine that runs the app afterwards; the data of the app must be in the bucket',
    },
    { flags: '--all', summary: 'every app whose data is not there yet' },
    { flags: '--dry-run', summary: 'only print which data would be moved' },
  ],
  examples: [
    'move shop --to bucket',
    'move --all --to bucket --dry-run',
    'move shop --host box2 --yes',
    'move shop --to local --yes',
  ],
  destroys: async (input, session) => {
    const host = hostOf(input);
    if (host !== undefined) return `Move ${appOf(input, session)} to ${host}? Requests wait during the move.`;
    const to = placeOf(input);
    const planned = await plansOf(session, input, to);
    const moving = planned.filter(({ plan }) => plan.from !== to);
    return `${moving.map(shownPlan).join('\n')}\nMove ${many(moving.length, 'app')} ${PLACES[to]}? Requests wait during the move.`;
  },
  run: async (session, input) => {
    const host = hostOf(input);
    if (host !== undefined) {
      const id = appOf(input, session);
      const { moved } = await session.call('apps.move', { id, host, dry_run: input.dryRun === true });
      if (moved) return `${id} runs on ${host}.`;
      return input.dryRun === true ? `${id} can move to ${host}.` : `${id} already runs on ${host}.`;
    }
    const to = placeOf(input);
    const planned = await plansOf(session, input, to);
    const moving = planned.filter(({ plan }) => plan.from !== to);
    if (moving.length === 0) return `All data is already there: nothing was moved.`;
    if (input.dryRun === true) return moving.map(shownPlan).join('\n');
    for (const [at, { slug, plan }] of moving.entries()) {
      session.place.say(`${at + 1} of ${moving.length}: ${shownPlan({ slug, plan })}\n`);
      await session.call('apps.move', { id: slug, to });
    }
    return `${many(moving.length, 'app')} moved ${PLACES[to]}.`;
  },
});

/** Returns the host to move to; undefined without one. @throws {Stopped} when `--to` or `--all` is given too */
function hostOf({ host, to, all }: Input): string | undefined {
  if (typeof host !== 'string') return undefined;
  if (to === undefined && all !== true) return host;
  throw new Stopped(
    'usage',
    '--host changes the host of one app, without its data: use it without --to and --all.',
    'cellar move --help',
  );
}

function appOf({ name }: Input, session: Session): string {
  return typeof name === 'string' ? name : session.app();
}

function placeOf({ to }: Input): To {
  if (to === 'local' || to === 'bucket') return to;
  throw new Stopped('usage', 'Say where to: --to bucket, --to local or --host NAME.', 'cellar move --help');
}

async function plansOf(session: Session, input: Input, to: To): Promise<Planned[]> {
  const { all } = input;
  const slugs =
    all === true
      ? [
          ...(await whole((page) => session.call('apps.list', page))).items,
          ...(await whole((page) => session.call('apps.list', { ...page, dispatch_namespace: '*' }))).items,
        ]
          .filter(({ storage }) => storage !== to)
          .map(({ slug }) => slug)
      : [appOf(input, session)];
  const planned: Planned[] = [];
  for (const slug of slugs) {
    try {
      planned.push({ slug, plan: await session.call('apps.move', { id: slug, to, dry_run: true }) });
    } catch (error) {
      const isLeft = all === true && error instanceof Refused && LEFT.includes(error.problem.code);
      if (!isLeft) throw error;
      session.place.say(`${slug} stays: ${error.message}\n`);
    }
  }
  return planned;
}

function shownPlan({ slug, plan }: Planned): string {
  const parts = [
    many(plan.databases, 'D1 database'),
    many(plan.namespaces, 'KV namespace'),
    many(plan.objects, 'Durable Object'),
    many(plan.r2_objects, 'R2 object'),
    ...(plan.previews > 0 ? [many(plan.previews, 'preview')] : []),
  ];
  return `${slug}: ${parts.join(', ')}, ${bytes(plan.bytes)}`;
}
