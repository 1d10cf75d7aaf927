// The stack of an error: its frames, with the places in the project's own files.
import { OF_UNDEFINED } from './missing-bindings.ts';
import type { SourcePlace } from './source-places.ts';

const FRAME = /^(\s+)at (?:(async )?(?:(.+?) \()?)((?:file:\/\/\/bundle\/)?([^()\s]+)):(\d+):(\d+)\)?( .*)?$/;
/** Modules of the entry, and what is none of the project's own code. */
const ENTRY_FILE = /^cellar-[\w-]+\.js$/;
const FOREIGN_FILE = /(?:^|\/)node_modules\/|^(?:node|cloudflare|workerd)[-\w]*:/;
/** Frames that are looked at: an app may make any number. */
const FRAMES = 50;
/** Names so short were made by whoever made the bundle small. */
const MADE_SHORT = 2;

interface Frame {
  /** Where it stands in the stack. */
  line: number;
  /** What comes before it in its line, and after it: an error may be printed between other things. */
  indent: string;
  rest: string;
  isAsync: boolean;
  /** As the stack has it, such as `Object.fetch`; null for a function without a name. */
  name: string | null;
  /** As in `index.js:4:11`. */
  place: string;
}

/** A stack whose places are those of the project's files. */
export interface SourceStack {
  text: string;
  /** The uppermost place in the project's own code; null when there is none. */
  place: string | null;
  /** What stays the same while lines come and go above: files and functions, the uppermost first. */
  frames: string[];
}

/** The places that a stack names, each once. */
export function placesIn(stack: string): string[] {
  return [...new Set(framesOf(stack.split('\n')).map(({ place }) => place))];
}

/** @param sources what the release's source maps say of the places; those that they do not know stay as they are */
export function withSources(stack: string, sources: ReadonlyMap<string, SourcePlace | null>): SourceStack {
  const lines: (string | null)[] = stack.split('\n');
  const frames = framesOf(lines as string[]);
  // Causes have frames of their own, which do not say where the error itself comes from.
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
    // Nobody says what the source calls a function without a caller, but names of methods are never made short.
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

/** What an author may have forgotten, on a line before the first frame. @param message what comes before the frames */
function hintFor(source: SourcePlace | null, message: string | null | undefined): string {
  if (!source?.unbound || !message?.includes(OF_UNDEFINED)) return '';
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

/** What the source calls a function: where names were made short, whoever called it says so. */
function nameOf({ name }: Frame, source: SourcePlace | null, caller: SourcePlace | null): string | null {
  if (name === null || name === '<anonymous>') return null;
  const plain = name.replace(/^(?:Object|Function|Module)\.|^new | \[as \w+\]$/g, '');
  if (!source?.renamed) return plain;
  const last = plain.split('.').at(-1)!;
  if (last.length > MADE_SHORT) return last;
  return caller?.name ?? null;
}
