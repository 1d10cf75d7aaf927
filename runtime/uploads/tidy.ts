// Removes old uploads: sessions that are expired or over the limit, and undeployed versions that are over the limit or whose
// app was never created.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { removeTree } from '../disk/remove.ts';
import { log, reason } from '../log.ts';
import { accountOf, accountOfSession, isVersionId, readVersion } from './version-files.ts';

/** Lifetime of a session, and of an upload for an app that was never created, in ms. */
const KEPT_MS = 3_600_000;
/**
 * Maximum undeployed versions of each app, and of each account for apps that do not exist. Older ones are removed. Versions in
 * use count too, but stay.
 */
const VERSIONS = 10;
/** Maximum upload sessions of an account. The oldest are removed, because a client may begin many and finish none. */
const SESSIONS = 16;

/**
 * Removes unneeded sessions and versions. Logs failed removals.
 * @param isUsed whether a version is being deployed, or is the second version of a split: it stays
 */
export async function tidyUploads(
  { sessions, versions }: { sessions: string; versions: string },
  isUsed: (id: string) => boolean,
): Promise<void> {
  const before = Date.now() - KEPT_MS;
  const isOld = async (path: string) => ((await stat(path).catch(() => null))?.mtimeMs ?? 0) < before;
  const begun = await Promise.all(
    (await readdir(sessions)).map(async (id) => {
      const at = (await stat(join(sessions, id)).catch(() => null))?.mtimeMs ?? 0;
      return { id, at, account: (await accountOfSession(sessions, id)) ?? '' };
    }),
  );
  const older = new Map<string, number>();
  for (const { id, at, account } of begun.sort((a, b) => b.at - a.at)) {
    const count = (older.get(account) ?? 0) + 1;
    older.set(account, count);
    if (at < before || (account !== '' && count > SESSIONS)) await removeUpload(join(sessions, id));
  }
  const kept = new Map<string, number>();
  const ids = (await readdir(versions)).filter(isVersionId).sort().reverse();
  for (const id of ids) {
    const version = await readVersion(versions, id);
    const appId = version?.app_id ?? null;
    // Counts versions without an app by account: their apps may never have been created.
    const whose = appId ?? accountOf(version?.owner ?? '');
    const count = (kept.get(whose) ?? 0) + 1;
    kept.set(whose, count);
    const isGone = appId === null && (await isOld(join(versions, id)));
    // Checked last: a deploy may have begun since the file was read.
    if ((isGone || count > VERSIONS) && !isUsed(id)) await removeUpload(join(versions, id));
  }
}

/** Removes an upload's directory. Never rejects. */
export async function removeUpload(path: string): Promise<void> {
  await removeTree(path).catch((error: unknown) =>
    log('warn', 'files of an upload could not be removed', { path, error: reason(error) }),
  );
}
