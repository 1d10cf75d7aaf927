// A built folder that is chosen or dropped, and deployed as a static site. Only files that Cellar does not have are sent.
import {
  FILE_HASH_DIGITS,
  FOLDER_FILE_BYTES,
  folderFault,
  isPrivateName,
} from '../../../handlers/contract/source/folder-files.ts';
import { api, Failure } from '../../api.ts';
import { bytes } from '../../parts/format.ts';

/** Files by path with a leading slash. */
export type Folder = ReadonlyMap<string, File>;

/** Progress of an upload: `words` say what it does now, `part` is from 0 to 1. */
export interface Progress {
  words: string;
  part: number;
}

/** Returns the files of a chosen folder, without private ones (`isPrivateName`). */
export function chosenFolder(files: Iterable<File>): Folder {
  const all = [...files].map((file): [string, File] => {
    const path = file.webkitRelativePath;
    return [path.slice(path.indexOf('/')), file];
  });
  return new Map(all.filter(([path]) => !isPrivate(path)));
}

/**
 * Returns the dropped files, without private ones. The root is the dropped folder, if only one folder was dropped.
 * @throws {Failure} when a file cannot be read
 */
export async function droppedFolder(dropped: DataTransfer): Promise<Folder> {
  // Must run before the first `await`: the browser empties `items` when the event's handler returns.
  const entries = [...dropped.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const [only] = entries;
  const top = entries.length === 1 && isDirectory(only!) ? await entriesOf(only) : entries;
  const files = new Map<string, File>();
  await collect(top, '', files);
  return files;
}

/**
 * Sends a folder, and queues its deploy.
 * @returns the deploy's id
 * @throws {Failure} when the folder cannot be a site, before anything is sent; and when the server refuses it
 */
export async function deployFolder(
  app: string,
  folder: Folder,
  { onProgress, signal }: { onProgress: (progress: Progress) => void; signal: AbortSignal },
): Promise<string> {
  const fault = faultOf(folder);
  if (fault !== null) throw new Failure(fault, null, 0);
  const manifest: Record<string, { hash: string; size: number }> = {};
  const byHash = new Map<string, File>();
  for (const [path, file] of folder) {
    signal.throwIfAborted();
    onProgress({ words: `Reading ${folder.size} files`, part: Object.keys(manifest).length / folder.size });
    const hash = await hashOf(file);
    manifest[path] = { hash, size: file.size };
    byHash.set(hash, file);
  }
  const { upload, missing } = await api('deploys.begin_upload', { id: app, manifest }, { signal });
  const sizeOf = (hashes: string[]) => hashes.reduce((sum, hash) => sum + byHash.get(hash)!.size, 0);
  const total = sizeOf(missing.flat());
  let sent = 0;
  for (const hashes of missing) {
    const words = `${bytes(sent)} of ${bytes(total)} sent`;
    onProgress({ words, part: total === 0 ? 1 : sent / total });
    const read = hashes.map(async (hash) => [hash, await base64Of(byHash.get(hash)!)] as const);
    const contents = Object.fromEntries(await Promise.all(read));
    await api('deploys.upload_files', { id: app, upload, contents }, { signal });
    sent += sizeOf(hashes);
  }
  onProgress({ words: 'Beginning the deploy', part: 1 });
  return (await api('deploys.finish_upload', { id: app, upload }, { signal })).id;
}

/** Returns why a folder cannot be deployed; null when it can. */
export function faultOf(folder: Folder): string | null {
  const fault = folderFault([...folder.keys()]);
  if (fault !== null) return `The folder ${fault}.`;
  const [large] = [...folder].find(([, { size }]) => size > FOLDER_FILE_BYTES) ?? [];
  if (large !== undefined) return `${large} has more than the ${bytes(FOLDER_FILE_BYTES)} of one file.`;
  if (globalThis.crypto.subtle !== undefined) return null;
  return 'The browser cannot check files on a page without HTTPS. Open Cellar by HTTPS, or run: cellar deploy --dir dist';
}

function isPrivate(path: string): boolean {
  return path.split('/').some(isPrivateName);
}

function isDirectory(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory;
}

function isFile(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile;
}

async function collect(entries: FileSystemEntry[], at: string, files: Map<string, File>): Promise<void> {
  for (const entry of entries) {
    if (isPrivateName(entry.name)) continue;
    const path = `${at}/${entry.name}`;
    if (isDirectory(entry)) await collect(await entriesOf(entry), path, files);
    else if (isFile(entry)) files.set(path, await fileOf(entry));
  }
}

/** Lists a directory. `readEntries` returns a part of the entries at each call, and an empty list at the end. */
async function entriesOf(directory: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = directory.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, (error) => reject(unreadable(directory.name, error))),
    );
    if (part.length === 0) return all;
    all.push(...part);
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) =>
    entry.file(resolve, (error) => reject(unreadable(entry.name, error))),
  );
}

function unreadable(name: string, { message }: DOMException): Failure {
  return new Failure(`${name} cannot be read: ${message}`, null, 0);
}

async function hashOf(file: File): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', await contentOf(file)));
  const digits = [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return digits.slice(0, FILE_HASH_DIGITS);
}

async function base64Of(file: File): Promise<string> {
  const content = new Uint8Array(await contentOf(file));
  const parts: string[] = [];
  // JavaScript engines limit the number of a call's arguments.
  for (let from = 0; from < content.length; from += 32_768)
    parts.push(String.fromCharCode(...content.subarray(from, from + 32_768)));
  return btoa(parts.join(''));
}

function contentOf(file: File): Promise<ArrayBuffer> {
  return file.arrayBuffer().catch((error: DOMException) => {
    throw unreadable(file.name, error);
  });
}
