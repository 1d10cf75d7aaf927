// Deploys a built folder as a static site. Only files that Cellar does not have are sent.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import type { App } from '../handlers/contract/apps/apps.ts';
import type { Deploy } from '../handlers/contract/apps/deploys.ts';
import {
  FILE_HASH_DIGITS,
  FOLDER_FILE_BYTES,
  FOLDER_FILES,
  folderFault,
  isPrivateName,
} from '../handlers/contract/source/folder-files.ts';
import { someOf } from '../handlers/contract/text.ts';
import { Stopped } from './exit.ts';
import { readGit } from './git/folder.ts';
import type { Session } from './session.ts';
import { bytes, plain } from './show.ts';

interface Listing {
  /** Paths on this machine, by path with a leading slash. */
  files: Map<string, string>;
  /** Paths that are not deployed: a name in them is private (`isPrivateName`). */
  leftOut: string[];
}

/**
 * Uploads the files of a folder, and queues the deploy.
 * @param directory relative to the session's folder
 * @throws {Stopped} for a folder that cannot be deployed, before anything is sent
 */
export async function deployFolder(session: Session, app: App, directory: string): Promise<Deploy> {
  const { say, folder } = session.place;
  const { files, leftOut } = listFiles(resolve(folder, directory), directory);
  const fault = folderFault([...files.keys()]);
  if (fault !== null) throw refusal(directory, fault);
  if (leftOut.length > 0) say(`▸ left out: ${plain(someOf(leftOut))}\n`);
  const byHash = new Map<string, { file: string; size: number }>();
  const manifest: Record<string, { hash: string; size: number }> = {};
  for (const [path, file] of files) {
    const content = readFileSync(file);
    const hash = createHash('sha256').update(content).digest('hex').slice(0, FILE_HASH_DIGITS);
    manifest[path] = { hash, size: content.length };
    byHash.set(hash, { file, size: content.length });
  }
  const { id } = app;
  const { upload, missing } = await session.call('deploys.begin_upload', { id, manifest });
  const sizeOf = (hashes: string[]) => hashes.reduce((sum, hash) => sum + byHash.get(hash)!.size, 0);
  const total = sizeOf(missing.flat());
  say(`▸ ${missing.flat().length} of ${files.size} files are new, ${bytes(total)}\n`);
  let sent = 0;
  for (const hashes of missing) {
    const contents = hashes.map((hash) => [hash, readFileSync(byHash.get(hash)!.file).toString('base64')]);
    await session.call('deploys.upload_files', { id, upload, contents: Object.fromEntries(contents) });
    sent += sizeOf(hashes);
    if (missing.length > 1) say(`▸ ${bytes(sent)} of ${bytes(total)} sent\n`);
  }
  const message = readGit(folder, 'log', '-1', '--format=%s')?.slice(0, 200);
  return session.call('deploys.finish_upload', { id, upload, ...(message && { message }) });
}

/** Lists the files below a folder. Follows links that stay in it. @throws {Stopped} for a file that cannot be deployed */
function listFiles(path: string, shown: string): Listing {
  const root = statSync(path, { throwIfNoEntry: false })?.isDirectory() ? realpathSync(path) : null;
  if (root === null) throw refusal(shown, 'is not a folder');
  const files = new Map<string, string>();
  const leftOut: string[] = [];
  const list = (folder: string, at: string, above: string[]) => {
    for (const name of readdirSync(folder).sort()) {
      const here = `${at}/${name}`;
      const real = realOf(join(folder, name));
      if (real === null) throw refusal(here.slice(1), 'is a link that leads nowhere; remove it');
      const inside = relative(root, real);
      if (inside === '..' || inside.startsWith(`..${sep}`))
        throw refusal(here.slice(1), 'is a link that leaves the folder; copy what it leads to');
      if ([name, ...inside.split(sep)].some(isPrivateName)) {
        leftOut.push(here.slice(1));
        continue;
      }
      const stats = statSync(real);
      if (stats.isDirectory()) {
        if (above.includes(real)) throw refusal(here.slice(1), 'is a link to a folder that contains it');
        list(real, here, [...above, real]);
        continue;
      }
      if (!stats.isFile()) throw refusal(here.slice(1), 'is not a file; remove it');
      if (stats.size > FOLDER_FILE_BYTES)
        throw refusal(
          here.slice(1),
          `has ${bytes(stats.size)}, more than the ${bytes(FOLDER_FILE_BYTES)} of one file`,
        );
      files.set(here, real);
      if (files.size > FOLDER_FILES)
        throw refusal(shown, `has more than the ${FOLDER_FILES} files that a site may have`);
    }
  };
  list(root, '', [root]);
  return { files, leftOut };
}

function realOf(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

function refusal(path: string, why: string): Stopped {
  return new Stopped('usage', `${plain(path)} ${why}.`, 'cellar deploy --help');
}
