// The refusal of a push in git's own words: of an HTTP status its user would read no more than the number.
import type { Push } from './receive-pack.ts';

/** Bytes of a ref's name in a report: no file system has a longer one. */
const REF_LENGTH = 4096;
/** Ends a list of lines. */
const FLUSH = '0000';
/** The side band that git reads; the second it would print. */
const DATA_BAND = '\x01';

/**
 * The answer to a push of which nothing is carried out: git prints a line for each ref.
 * @param reasons by ref; one without is refused because of the others
 * @returns null for a client that takes no reports: it would think that the push has succeeded
 */
export function reportRefusal(
  { commands, capabilities }: Push,
  reasons: Map<string, string>,
): Response | null {
  if (!capabilities.some((name) => /^report-status(-v2)?$/.test(name))) return null;
  const refusals = commands.map(
    ({ ref }) => `ng ${ref.slice(0, REF_LENGTH)} ${reasons.get(ref) ?? 'refused because of the others'}\n`,
  );
  const report = [...['unpack ok\n', ...refusals].map(line), FLUSH];
  const inBands = capabilities.includes('side-band-64k');
  const sent = inBands ? [...report.map((part) => line(DATA_BAND + part)), FLUSH] : report;
  return new Response(sent.join(''), {
    headers: { 'content-type': 'application/x-git-receive-pack-result', 'cache-control': 'no-cache' },
  });
}

/** Returns a pkt-line: its length in bytes, as four hexadecimal digits that count too, and its text. */
export function line(text: string): string {
  const length = 4 + new TextEncoder().encode(text).length;
  return length.toString(16).padStart(4, '0') + text;
}
