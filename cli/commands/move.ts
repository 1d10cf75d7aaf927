// The command that moves apps between the machine and the bucket.
import { Refused } from '../../client/index.ts';
import type { Result } from '../../handlers/contract/index.ts';
import { type Command, type Input, textCommand } from '../command.ts';
import { Stopped } from '../exit.ts';
import { type Session, whole } from '../session.ts';
import { bytes, many } from '../show.ts';

const PLACES = { local: 'to this machine', bucket: 'into the bucket' } as const;
/** Codes of refusals of one app, after which the others still move. */
const LEFT = ['app_immovable', 'forbidden'];
type To = keyof typeof PLACES;

interface Planned {
  slug: string;
  plan: Result<'apps.move'>;
}

export const moveCommand: Command = textCommand({
  words: 'move',
  summary: 'Moves an app with its data and code into the bucket, or back to the machine',
  ofApp: true,
  arguments: [{ name: 'name', summary: 'the app, instead of --app', optional: true }],
  options: [
    { flags: '--to <place>', summary: 'where it keeps its data afterwards', choices: ['local', 'bucket'] },
    { flags: '--all', summary: 'every app that is elsewhere' },
    { flags: '--dry-run', summary: 'only say what would be moved' },
  ],
  examples: ['move shop --to bucket', 'move --all --to bucket --dry-run', 'move shop --to local --yes'],
  destroys: async (input, session) => {
    const to = placeOf(input);
    const planned = await plansOf(session, input, to);
    const moving = planned.filter(({ plan }) => plan.from !== to);
    return `${moving.map(shownPlan).join('\n')}\nMove ${many(moving.length, 'app')} ${PLACES[to]}? Requests wait meanwhile.`;
  },
  run: async (session, input) => {
    const to = placeOf(input);
    const planned = await plansOf(session, input, to);
    const moving = planned.filter(({ plan }) => plan.from !== to);
    if (moving.length === 0) return 'Nothing is to be moved.';
    if (input.dryRun === true) return moving.map(shownPlan).join('\n');
    for (const [at, { slug, plan }] of moving.entries()) {
      session.place.say(`${at + 1} of ${moving.length}: ${shownPlan({ slug, plan })}\n`);
      await session.call('apps.move', { id: slug, to });
    }
    return `${many(moving.length, 'app')} moved ${PLACES[to]}.`;
  },
});

function placeOf({ to }: Input): To {
  if (to === 'local' || to === 'bucket') return to;
  throw new Stopped('usage', 'Say where to: --to bucket or --to local.', 'cellar move --help');
}

async function plansOf(session: Session, { name, all }: Input, to: To): Promise<Planned[]> {
  const slugs =
    all === true
      ? (await whole((page) => session.call('apps.list', page))).items
          .filter(({ storage }) => storage !== to)
          .map(({ slug }) => slug)
      : [typeof name === 'string' ? name : session.app()];
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
