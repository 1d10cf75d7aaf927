// What uploads leave goes by and by: sessions that are old or too many, and versions that nobody has deployed.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { removeTree } from '../disk/remove.ts';
import { log, reason } from '../log.ts';
import { accountOf, accountOfSession, isVersionId, readVersion } from './version-files.ts';

/** How long a session, and an upload for an app that was not made, is kept. */
const KEPT_MS = 3_600_000;
/** Versions of an app that wait to be deployed, and those of an account without an app: older ones go. */
const VERSIONS = 10;
/** Sessions of an account: older ones go. */
const SESSIONS = 16;

/**
 * Removes the sessions and versions that nobody will ask for. What cannot be removed is logged.
 * @param isDeploying whether a version is being deployed: it stays
 */
export async function tidyUploads(
  { sessions, versions }: { sessions: string; versions: string },
  isDeploying: (id: string) => boolean,
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
    if (isDeploying(id)) continue;
    const version = await readVersion(versions, id);
    const appId = version?.app_id ?? null;
    // The account of a version without an app: it may have been uploaded for an app that could not be made.
    const whose = appId ?? accountOf(version?.owner ?? '');
    const count = (kept.get(whose) ?? 0) + 1;
    kept.set(whose, count);
    const isGone = appId === null && (await isOld(join(versions, id)));
    // Asked again: it may be handed to a deploy since its file was read.
    if ((isGone || count > VERSIONS) && !isDeploying(id)) await removeUpload(join(versions, id));
  }
}

/** Removes what an upload left. Never rejects. */
export async function removeUpload(path: string): Promise<void> {
  await removeTree(path).catch((error: unknown) =>
    log('warn', 'what an upload left could not be removed', { path, error: reason(error) }),
  );
}
