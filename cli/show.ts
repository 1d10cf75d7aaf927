// Formats data for people: tables, times, sizes, colours.
import { styleText } from 'node:util';
import type { App } from '../handlers/contract/apps/apps.ts';
import type { Deploy } from '../handlers/contract/apps/deploys.ts';

type Style = Parameters<typeof styleText>[0];

const statusStyles: Record<string, Style> = {
  running: 'green',
  live: 'green',
  done: 'green',
  active: 'green',
  pending: 'yellow',
  ok: 'green',
  complete: 'green',
  waiting: 'blue',
  paused: 'yellow',
  errored: 'red',
  sleeping: 'blue',
  crashed: 'red',
  failed: 'red',
  error: 'red',
  starting: 'yellow',
  draining: 'yellow',
  silent: 'red',
  deploying: 'yellow',
  building: 'yellow',
  warn: 'yellow',
};

/** Styles a text, if standard output is a terminal with colours. */
export function styled(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

/** Returns a status in its colour. */
export function status(word: string): string {
  const style = statusStyles[word];
  return style === undefined ? word : styled(style, word);
}

/** Replaces control characters in untrusted text: a terminal would run them as commands. */
export function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are replaced
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '\ufffd');
}

/** Formats a table with headings. @param none the sentence for an empty table */
export function table(heads: readonly string[], rows: readonly (readonly string[])[], none: string): string {
  if (rows.length === 0) return none;
  const widths = heads.map((head, n) => Math.max(head.length, ...rows.map((row) => width(row[n]!))));
  const line = (cells: readonly string[]) =>
    cells.map((cell, n) => (n === heads.length - 1 ? cell : pad(cell, widths[n]!))).join('  ');
  return [styled('dim', line(heads)), ...rows.map(line)].join('\n');
}

/** Formats a list of names and values. Skips null values. */
export function fields(entries: readonly (readonly [string, string | null])[]): string {
  const shown = entries.filter((entry): entry is [string, string] => entry[1] !== null);
  const widest = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${styled('dim', name.padEnd(widest))}  ${value}`).join('\n');
}

/** Formats how long ago a time is, or how far ahead; `-` for null. */
export function ago(time: string | null): string {
  if (time === null) return '-';
  const seconds = Math.round((Date.now() - Date.parse(time)) / 1000);
  const size = Math.abs(seconds);
  const text = size < 60 ? `${size} s` : size < 3600 ? `${Math.floor(size / 60)} min` : hours(size);
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

/** Formats a number of bytes; `-` for null. */
export function bytes(count: number | null): string {
  if (count === null) return '-';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length - 1, count < 1024 ? 0 : Math.floor(Math.log2(count) / 10));
  const value = count / 1024 ** power;
  return `${value >= 100 || power === 0 ? Math.round(value) : value.toPrecision(3)} ${units[power]}`;
}

/** Formats a count, with the singular or plural of the noun. */
export function many(count: number, one: string, more = `${one}s`): string {
  return `${count} ${count === 1 ? one : more}`;
}

/** Formats a duration in ms. */
export function took(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** Formats the commit of a deploy. An upload has only a message. */
export function shownCommit({ sha, message }: Pick<Deploy, 'sha' | 'message'>): string {
  return `${sha.slice(0, 8)} ${firstLine(message)}`.trim();
}

export function shownApp(app: App): string {
  return fields([
    ['app', `${app.slug}  ${styled('dim', app.id)}`],
    ['status', status(app.status)],
    ['maintenance', app.maintenance ? 'on: visitors get 503' : null],
    ['url', app.url],
    ['git', app.git_url],
    ['data', app.storage === 'bucket' ? 'In the bucket' : 'On this machine'],
    ['host', app.home && plain(app.home.name)],
    ['processes', app.replicas > 1 ? `up to ${app.replicas}` : null],
    ['deployed', app.deployed_at && ago(app.deployed_at)],
    ['asleep since', app.asleep_since && ago(app.asleep_since)],
    ['last error', app.last_error && plain(app.last_error)],
    ...app.warnings.map((warning): [string, string] => ['warning', plain(warning)]),
  ]);
}

export function shownDeploy(deploy: Deploy): string {
  const steps = deploy.steps.map(({ name, status: word, duration_ms }) =>
    `${name} ${duration_ms === null ? word : took(duration_ms)}`.trim(),
  );
  return fields([
    ['deploy', deploy.id],
    ['status', status(deploy.status)],
    ['commit', shownCommit(deploy)],
    ['steps', steps.length > 0 ? steps.join(', ') : null],
    ['error', deploy.error && plain(deploy.error)],
  ]);
}

/** Formats why and when a deploy failed, and the command that shows its log. */
export function shownFailure({ id, finished_at, error }: Deploy): string {
  const why = error === null ? '' : `: ${firstLine(error)}`;
  return `\n${styled('red', `The last deploy failed ${ago(finished_at)}`)}${why}\nIts log: cellar deploys log ${id}`;
}

/** Returns the first line of untrusted text, without control characters. */
export function firstLine(text: string): string {
  return plain(text.split('\n', 1)[0]!);
}

function hours(seconds: number): string {
  return seconds < 48 * 3600 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}

function pad(cell: string, to: number): string {
  return cell + ' '.repeat(to - width(cell));
}

/** Returns the number of characters of a text, without its colour codes. */
function width(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes begin with the control character ESC
  return text.replace(/\u001b\[\d+m/g, '').length;
}
