// Maps places in a bundled module, as workerd names them, to places in the project's own files.
import { open } from 'node:fs/promises';
import { SourceMap } from 'node:module';
import { basename, join } from 'node:path';
import { dividedSecrets } from '../../../bundler/bindings/secrets.ts';
import { RELEASE_FILE, type Release } from '../../../bundler/release.ts';
import { cutText } from '../../../handlers/contract/text.ts';
import { threads } from '../../threads/worker.ts';
import { FROM_ENV } from './missing-bindings.ts';

const PLACE = /(?:file:\/\/\/bundle\/)?([\w.-]+\.js):(\d+):(\d+)/g;
/** Largest source map or other file of a release that is read, in bytes. */
const MAP_BYTES = 32 * 2 ** 20;
/** Longest message, in characters. The rest is cut off. */
const MESSAGE_LENGTH = 16_000;
/** Longest name of a file or function, in characters. In a source map, names may have any length. */
const NAME_LENGTH = 500;
const DEADLINE_MS = 5_000;

/**
 * Replaces places such as `index.js:4:11` in a message by source file, line and column. A worker thread reads the source
 * maps, because they can be large. Places without a mapping stay unchanged, as do all if the thread fails or is late.
 * @param directory the directory of the release, with the maps beside its modules
 */
export async function toSourcePlaces(directory: string, message: string): Promise<string> {
  const shown = message.slice(0, MESSAGE_LENGTH);
  return threads
    .run<typeof replacePlaces>(new URL(import.meta.url), 'replacePlaces', [directory, shown], {
      deadlineMs: DEADLINE_MS,
      key: directory,
    })
    .catch(() => shown);
}

/** Runs on a worker thread. Parses each source map of the message once. */
export async function replacePlaces(directory: string, message: string): Promise<string> {
  const names = new Set([...message.matchAll(PLACE)].map(([, name]) => name!));
  const maps = new Map<string, SourceMap | null>();
  for (const name of names) maps.set(name, await readMap(directory, name));
  return message.replaceAll(PLACE, (place, name: string, line: string, column: string) => {
    const origin = maps.get(name)?.findOrigin(Number(line), Number(column));
    return origin && 'fileName' in origin
      ? `${nameIn(origin.fileName)}:${origin.lineNumber}:${origin.columnNumber}`
      : place;
  });
}

/** The place in the sources that belongs to a place in a module, with facts about the code there. */
export interface SourcePlace {
  file: string;
  line: number;
  column: number;
  /** The original name that the source map has for this place; null without one. */
  name: string | null;
  /** Whether the bundler has renamed anything in the module. */
  renamed: boolean;
  /** The literal text of a created error: `new Error('…')`; null elsewhere. It distinguishes throws in one function. */
  words: string | null;
  /** The name that the code just before this place reads from `env`, if the release has no such binding; otherwise null. */
  unbound: string | null;
}

/**
 * Returns the source places of places in a release's modules, in order; null for places that no source map has.
 * @param directory the directory of the release
 * @param places such as `index.js:4:11`
 * @throws {Error} when the maps cannot be read in time
 */
export async function toSources(directory: string, places: string[]): Promise<(SourcePlace | null)[]> {
  return threads.run<typeof findSources>(new URL(import.meta.url), 'findSources', [directory, places], {
    deadlineMs: DEADLINE_MS,
    key: directory,
  });
}

/** Runs on a worker thread. Caches the last module with its source map, because releases never change. */
export async function findSources(directory: string, places: string[]): Promise<(SourcePlace | null)[]> {
  const found: (SourcePlace | null)[] = [];
  for (const place of places) {
    const [, module, line, column] = /^(.*):(\d+):(\d+)$/.exec(place) ?? [];
    const { map, code } = module === undefined ? NOTHING : await read(directory, module);
    const origin = map?.findOrigin(Number(line), Number(column));
    if (!map || !origin || !('fileName' in origin)) found.push(null);
    else {
      const words = wordsAt(code, Number(line), Number(column));
      const { lineNumber, columnNumber } = origin;
      const file = nameIn(origin.fileName);
      const name = origin.name ? nameIn(origin.name) : null;
      const renamed = ((map.payload as { names?: unknown[] }).names?.length ?? 0) > 0;
      const unbound = await unboundAt(directory, code, Number(line), Number(column));
      found.push({ file, line: lineNumber, column: columnNumber, name, renamed, words, unbound });
    }
  }
  return found;
}

function nameIn(name: string): string {
  return cutText(name, NAME_LENGTH, '…');
}

interface ReadModule {
  map: SourceMap | null;
  /** Lines of the bundled module. */
  code: string[];
}

const NOTHING: ReadModule = { map: null, code: [] };
/** Matches code that creates an error, with its text up to an interpolation. */
const MADE = /^new [\w$.]+\(\s*(?:"((?:[^"\\]|\\.)*)"|`((?:[^`$\\]|\\.)*))/;
const MADE_LENGTH = 300;
let kept: ({ path: string } & ReadModule) | null = null;

async function read(directory: string, module: string): Promise<ReadModule> {
  const path = join(directory, 'modules', basename(module));
  if (kept?.path !== path) {
    const map = await readMap(directory, module);
    kept = { path, map, code: map === null ? [] : ((await readBounded(path))?.split('\n') ?? []) };
  }
  return kept;
}

function wordsAt(code: string[], line: number, column: number): string | null {
  const [, quoted, template] =
    MADE.exec(code[line - 1]?.slice(column - 1, column - 1 + MADE_LENGTH) ?? '') ?? [];
  return quoted ?? template ?? null;
}

/** How many characters before a place are searched for `FROM_ENV`. */
const FROM_ENV_LENGTH = 200;

async function unboundAt(
  directory: string,
  code: string[],
  line: number,
  column: number,
): Promise<string | null> {
  const before = code[line - 1]?.slice(Math.max(0, column - 1 - FROM_ENV_LENGTH), column - 1) ?? '';
  const [, name] = FROM_ENV.exec(before) ?? [];
  const text = name === undefined ? null : await readBounded(join(directory, RELEASE_FILE));
  if (name === undefined || text === null) return null;
  const release = JSON.parse(text) as Release;
  const isBound = Object.hasOwn(release.vars, name) || dividedSecrets(release, [name]).given.length === 0;
  return isBound ? null : name;
}

async function readMap(directory: string, module: string): Promise<SourceMap | null> {
  try {
    const text = await readBounded(join(directory, 'modules', `${basename(module)}.map`));
    return text === null ? null : new SourceMap(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Reads a file of a release; null when it is missing or too large. */
async function readBounded(path: string): Promise<string | null> {
  try {
    await using file = await open(path);
    return (await file.stat()).size > MAP_BYTES ? null : await file.readFile('utf8');
  } catch {
    return null;
  }
}
