// Parses an error's stack into frames with places in the project's own files.
import { READ_OF_UNDEFINED } from './missing-bindings.ts';
import type { SourcePlace } from './source-places.ts';

const FRAME = /^(\s+)at (?:(async )?(?:(.+?) \()?)((?:file:\/\/\/bundle\/)?([^()\s]+)):(\d+):(\d+)\)?( .*)?$/;
/** Modules that Cellar adds around the project's code. Their frames are left out. */
const ENTRY_FILE = /^cellar-[\w-]+\.js$/;
/** Matches files of packages and of the platform. */
const FOREIGN_FILE = /(?:^|\/)node_modules\/|^(?:node|cloudflare|workerd)[-\w]*:/;
/** Maximum frames that are parsed: an app may print any number. */
const FRAMES = 50;
/** Maximum length of a name that counts as minified, in characters. */
const MADE_SHORT = 2;

interface Frame {
  /** Index of its line in the stack, from 0. */
  line: number;
  /** White space before the frame. */
  indent: string;
  /** Text after the frame: an error may be printed among other things. */
  rest: string;
  isAsync: boolean;
  /** As in the stack, such as `Object.fetch`; null for an anonymous function. */
  name: string | null;
  /** Such as `index.js:4:11`. */
  place: string;
}

/** A stack with places in the project's files. */
export interface SourceStack {
  text: string;
  /** The top place in the project's own code; null for none. */
  place: string | null;
  /**
   * File and function of each frame in the project's own code, top first; without such a frame, of all frames. They
   * have no line numbers, because edits change these.
   */
  frames: string[];
}

/** Returns the places in a stack, without duplicates. */
export function placesIn(stack: string): string[] {
  return [...new Set(framesOf(stack.split('\n')).map(({ place }) => place))];
}

/** Replaces the places in a stack. @param sources source places by place in the bundle; other places stay unchanged */
export function withSources(stack: string, sources: ReadonlyMap<string, SourcePlace | null>): SourceStack {
  const lines: (string | null)[] = stack.split('\n');
  const frames = framesOf(lines as string[]);
  // The frames of causes do not say where the error itself comes from.
  const cause = lines.findIndex((line) => line!.startsWith('Caused by: '));
  const own: { key: string; place: string }[] = [];
  const foreign: string[] = [];
  for (const [index, frame] of frames.entries()) {
    const source = sources.get(frame.place) ?? null;
    const file = source?.file ?? fileOf(frame.place);
    if (ENTRY_FILE.test(file)) {
      lines[frame.line] = null;
      const before = lines.findLastIndex((line, at) => at < frame.line && line !== null);
      if (before !== -1) lines[before] += frame.rest;
      continue;
    }
    const caller = sources.get(frames[index + 1]?.place ?? '') ?? null;
    const name = nameOf(frame, source, caller);
    const place = source === null ? frame.place : `${source.file}:${source.line}:${source.column}`;
    const called = `${frame.isAsync ? 'async ' : ''}${name ?? ''}`.trim();
    const hint = frame === frames[0] ? hintFor(source, lines[frame.line - 1]) : '';
    lines[frame.line] =
      `${hint}${frame.indent}at ${called === '' ? place : `${called} (${place})`}${frame.rest}`;
    if (cause !== -1 && frame.line > cause) continue;
    // The original name of a minified function comes from its caller's mapping. Method names are never minified.
    const isSure = source === null || caller !== null || frame.name?.includes('.');
    const words = frame === frames[0] ? (source?.words ?? '') : '';
    const key = `${file} ${isSure ? (name?.split('.').at(-1) ?? '') : ''}${words === '' ? '' : ` ${words}`}`;
    if (FOREIGN_FILE.test(file)) foreign.push(key);
    else own.push({ key, place });
  }
  return {
    text: lines.filter((line) => line !== null).join('\n'),
    place: own[0]?.place ?? null,
    frames: own.length > 0 ? own.map(({ key }) => key) : foreign,
  };
}

/** Returns a line that hints at a missing binding; empty without one. @param message the line before the first frame */
function hintFor(source: SourcePlace | null, message: string | null | undefined): string {
  if (!source?.unbound || !message?.includes(READ_OF_UNDEFINED)) return '';
  return `    (The app has no binding, variable or secret ${source.unbound}: add it to the Wrangler configuration, or set it as a secret)\n`;
}

function framesOf(lines: string[]): Frame[] {
  const frames: Frame[] = [];
  for (const [line, text] of lines.entries()) {
    const [, indent, isAsync, name, , file, row, column, rest = ''] = FRAME.exec(text.slice(0, 1_000)) ?? [];
    if (indent === undefined || file === undefined) continue;
    const place = `${file}:${row}:${column}`;
    const end = text.length > 1_000 ? rest + text.slice(1_000) : rest;
    frames.push({ line, indent, rest: end, isAsync: isAsync !== undefined, name: name ?? null, place });
    if (frames.length === FRAMES) break;
  }
  return frames;
}

function fileOf(place: string): string {
  return place.replace(/:\d+:\d+$/, '');
}

/** Returns a function's name in the source. A minified name is looked up in the caller's mapping. Null: unknown. */
function nameOf({ name }: Frame, source: SourcePlace | null, caller: SourcePlace | null): string | null {
  if (name === null || name === '<anonymous>') return null;
  const plain = name.replace(/^(?:Object|Function|Module)\.|^new | \[as \w+\]$/g, '');
  if (!source?.renamed) return plain;
  const last = plain.split('.').at(-1)!;
  if (last.length > MADE_SHORT) return last;
  return caller?.name ?? null;
}
