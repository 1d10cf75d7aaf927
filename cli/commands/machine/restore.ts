// The command that restores an app's storage from a snapshot.
import type { Params, Result } from '../../../handlers/contract/index.ts';
import { changedFiles, storageName } from '../../../handlers/contract/storage/restore-words.ts';
import { command, type Input, textOf } from '../../command.ts';
import { Stopped } from '../../exit.ts';
import type { Session } from '../../session.ts';
import { bytes, plain, table } from '../../show.ts';

type Restored = Result<'admin.restore'>;
type Change = NonNullable<Restored['changes']>[number];

/** Matches text that begins with a date in ISO 8601. */
const DATE = /^\d{4}-\d{2}-\d{2}/;

export const restoreCommand = command({
  words: 'restore',
  summary: "Restores an app's storage, or one of its databases, from a snapshot; needs the runner token",
  ofApp: true,
  arguments: [
    { name: 'snapshot', summary: 'the key of the snapshot, as `cellar snapshots` lists it', optional: true },
  ],
  options: [
    {
      flags: '--at <time>',
      summary: 'restore the last snapshot up to this time: 14:00 of the last 24 hours, or 2026-11-22T14:00Z',
    },
    { flags: '--database <id>', summary: 'restore only this database' },
    { flags: '--dry-run', summary: 'only print what would change' },
  ],
  examples: [
    'restore --at 14:00 --app shop --dry-run',
    'restore --at 14:00 --app shop --yes',
    'restore 2026-11-22T07-00-00-000Z --app shop --database notes --yes',
  ],
  answers: 'admin.restore',
  destroys: (input, session) => {
    const { snapshot, at, database } = paramsOf(input, session);
    const what = database === undefined ? 'all storage' : `the database ${database}`;
    const from = snapshot ?? `the last snapshot up to ${at}`;
    return `Replace ${what} of the app ${session.app()} by the storage in ${from}?`;
  },
  run: (session, input) => session.call('admin.restore', paramsOf(input, session)),
  show: (restored) => {
    const { snapshot, before, changes } = restored;
    if (changes !== null) return shownChanges(restored, changes);
    const aside =
      before === null ? 'could not be read, and is in the trash for a week' : `is in the snapshot ${before}`;
    const what = restored.database === null ? 'The storage' : `The database ${restored.database}`;
    return `${what} is as in the snapshot ${snapshot}. The previous storage ${aside}`;
  },
});

/** Returns the parameters of the operation. @throws {Stopped} when both a snapshot and a time are given, or neither */
function paramsOf(input: Input, session: Session): Params<'admin.restore'> {
  const snapshot = textOf(input, 'snapshot');
  const at = textOf(input, 'at');
  const database = textOf(input, 'database');
  if ((snapshot === undefined) === (at === undefined))
    throw new Stopped('usage', 'Give either the key of a snapshot, or --at.', 'cellar snapshots');
  return {
    app: session.app(),
    ...(snapshot === undefined ? { at: timeOf(at!, new Date()) } : { snapshot }),
    ...(database !== undefined && { database }),
    ...(input.dryRun === true && { dry_run: true }),
  };
}

/**
 * Returns a time in ISO 8601. `14:00` means the latest past 14:00 on this machine's clock.
 * @throws {Stopped} when it is not a time
 */
export function timeOf(text: string, now: Date): string {
  const [, hours, minutes] = /^(\d{1,2}):(\d{2})$/.exec(text) ?? [];
  const time = hours === undefined ? new Date(text) : new Date(now);
  if (hours !== undefined) {
    time.setHours(Number(hours), Number(minutes), 0, 0);
    if (time > now) time.setDate(time.getDate() - 1);
  }
  const isValid = hours === undefined ? DATE.test(text) : Number(hours) < 24 && Number(minutes) < 60;
  if (!isValid || Number.isNaN(time.getTime()))
    throw new Stopped(
      'usage',
      '--at must be like 14:00, or like 2026-11-22T14:00Z.',
      'cellar restore --help',
    );
  return time.toISOString();
}

function shownChanges({ snapshot, created_at, problem }: Restored, changes: readonly Change[]): string {
  const moved = changes.filter((each) => changedFiles(each) !== '');
  const rows = moved.map((each) => [
    plain(storageName(each)),
    bytes(each.bytes),
    bytes(each.now_bytes),
    bytes(each.lost_bytes),
    changedFiles(each),
  ]);
  const none = 'The storage is as in the snapshot: nothing would change.';
  return [
    `Snapshot ${snapshot}, taken at ${created_at}. Nothing was changed.`,
    ...(problem === null ? [] : [`Cellar cannot tell which data would be lost: ${problem}`]),
    table(['STORAGE', 'THEN', 'NOW', 'LOST', 'FILES'], rows, problem === null ? none : ''),
  ]
    .join('\n')
    .trim();
}
